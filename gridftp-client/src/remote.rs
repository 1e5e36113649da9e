//! Work on names and trees of a server beyond single commands: make, remove, link, ask, raw lines.

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::facts::Entry;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::url::{show, show_text};

/// Verbs that move data or change the session, which the library itself keeps in order.
const OWN: [&str; 32] = [
    "ABOR", "ACCT", "ADAT", "APPE", "AUTH", "CCC", "CONF", "DCAU", "DCSC", "ENC", "EPRT", "EPSV",
    "ERET", "ESTO", "LIST", "MIC", "MLSD", "MLSR", "MODE", "NLST", "PASS", "PASV", "PBSZ", "PORT",
    "PROT", "QUIT", "REIN", "REST", "RETR", "SPAS", "SPOR", "STOR",
];

impl Client {
    /// Says whether something is at `path`, in one way or another that the server knows.
    ///
    /// # Errors
    /// [`ControlError`] when the server does not tell.
    pub async fn exists(&self, path: &[u8]) -> Result<bool, ControlError> {
        self.control.exists(&self.path(path)?).await
    }

    /// Makes a directory, and those above it that are missing. Ones that are there already are no
    /// error.
    ///
    /// # Errors
    /// [`ControlError`]; the directories that were made stay.
    pub async fn make_dirs(&self, path: &[u8]) -> Result<(), ControlError> {
        let mut missing = vec![names::trim_slashes(path)];
        let mut climbs = true;
        while let Some(&dir) = missing.last() {
            let Err(error) = self.make_dir(dir).await else {
                (climbs, _) = (false, missing.pop());
                continue;
            };
            let parent = names::parent(dir);
            if error.reply().is_none() {
                return Err(error);
            }
            if self.is_dir(dir).await? {
                (climbs, _) = (false, missing.pop());
            } else if climbs && !parent.is_empty() && parent != dir && parent != b"/" {
                missing.push(parent);
            } else {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Says whether `path` is a directory; what the server refuses to tell of is none.
    async fn is_dir(&self, path: &[u8]) -> Result<bool, ControlError> {
        match self.stat(path).await {
            Ok((entry, _)) => Ok(entry.kind.is_dir()),
            Err(error) if error.reply().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, link or directory at `path`, a directory with all that it holds. Links are
    /// removed, and not followed.
    ///
    /// The server does it all at once where it can (`SITE RDEL`). Else the names are removed one by
    /// one; those that cannot be removed are left, and the others are removed all the same.
    ///
    /// # Errors
    /// [`TransferError`], the first one. An empty path, a root, and a path that ends in `.` or `..`
    /// are refused.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the names that are not removed yet.
    pub async fn remove_all(&mut self, path: &[u8]) -> Result<(), TransferError> {
        check_removable(path)?;
        let path = names::trim_slashes(path);
        let (entry, _) = self.stat(path).await?;
        if !is_tree(&entry) {
            return Ok(self.remove(path).await?);
        }
        let whole = Command::Site(SiteCommand::Rdel(self.path(path)?));
        match self.ask(whole).await {
            // vsftpd denies the permission for commands that it does not have.
            Err(error) if error.reply().is_some() => self.remove_one_by_one(path).await,
            done => Ok(done.map(drop)?),
        }
    }

    async fn remove_one_by_one(&mut self, root: &[u8]) -> Result<(), TransferError> {
        let mut failed = None;
        // A directory is met twice: before its entries, and behind them.
        let mut waiting = vec![(root.to_vec(), false)];
        while let Some((dir, emptied)) = waiting.pop() {
            if emptied {
                keep(&mut failed, self.remove_dir(&dir).await.map_err(Into::into))?;
                continue;
            }
            // Some servers list a link to a directory as a directory. It must not be entered, and
            // is a link if it can be removed like a file.
            match self.remove(&dir).await {
                Ok(()) => continue,
                Err(error) if error.reply().is_none() => return Err(error.into()),
                Err(_) => {}
            }
            let mut entries = Vec::new();
            let listed = self.list(&dir, |entry, _| entries.push(entry)).await;
            if !keep(&mut failed, listed)? {
                continue;
            }
            waiting.push((dir.clone(), true));
            for entry in entries {
                if !keep(&mut failed, names::check(&entry.name))? {
                    continue;
                }
                let path = names::join(&dir, &entry.name);
                if is_tree(&entry) {
                    waiting.push((path, false));
                } else {
                    let removed = self.remove(&path).await;
                    keep(&mut failed, removed.map_err(Into::into))?;
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Makes the symbolic link `link`, which leads to `target` as it is written.
    ///
    /// # Errors
    /// [`ControlError`]; many servers make no links.
    pub async fn symlink(&self, target: &[u8], link: &[u8]) -> Result<(), ControlError> {
        let (target, link) = (self.path(target)?, self.path(link)?);
        let from = Command::Site(SiteCommand::SymlinkFrom(target.clone()));
        match self.ask(from).await {
            Ok(_) => {
                let to = Command::Site(SiteCommand::SymlinkTo(link));
                self.ask(to).await.map(drop)
            }
            Err(error) if error.kind() == Some(FailureKind::Unsupported) => {
                let both = Command::Site(SiteCommand::Symlink(target, link));
                self.ask(both).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks how many bytes are free where `path` is (`AVBL`); `None` where the server does not
    /// tell, as most do not.
    ///
    /// # Errors
    /// [`ControlError`]; there may be nothing at `path`.
    pub async fn free_space(&self, path: &[u8]) -> Result<Option<u64>, ControlError> {
        match self.ask(Command::Avbl(self.path(path)?)).await {
            Ok(reply) => Ok(reply.size()),
            Err(error) if error.kind() == Some(FailureKind::Unsupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`checksum`](Self::checksum), and tells `each` how many bytes the server has hashed.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn checksum_with(
        &self,
        path: &[u8],
        algorithm: ChecksumAlgorithm,
        each: impl FnMut(u64),
    ) -> Result<String, ControlError> {
        let mut asked = self.send_checksum(path, algorithm, 0, None)?;
        asked.digest(each).await
    }

    /// Sends a line as it is, without its line end, and waits for the final reply. The line shows in
    /// errors and observers, so it must hold no secret.
    ///
    /// # Errors
    /// [`TransferError`]: the server refused it, or the line has a NUL or a line end, or moves data
    /// or changes the session, for which there are methods.
    pub async fn raw(&self, line: &[u8]) -> Result<Reply, TransferError> {
        let verb = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_own = |own: &&str| verb.eq_ignore_ascii_case(own.as_bytes());
        let wire = FtpPath::new(line).filter(|_| !OWN.iter().any(is_own));
        let Some(wire) = wire else {
            let what = format!("usage: {}: no raw command", show_text(line));
            let remedy = "those that move data or change the session have methods of their own";
            return Err(TransferError::request(what, remedy));
        };
        Ok(self.ask(Command::Raw(wire)).await?)
    }
}

/// Says whether it is a directory itself, and no link to one.
fn is_tree(entry: &Entry) -> bool {
    entry.kind.is_dir() && entry.target.is_none()
}

/// Keeps the first failure, and goes on unless the session is gone; says whether it succeeded.
fn keep(
    failed: &mut Option<TransferError>,
    done: Result<(), TransferError>,
) -> Result<bool, TransferError> {
    let Err(error) = done else { return Ok(true) };
    if error.is_gone() {
        return Err(error);
    }
    failed.get_or_insert(error);
    Ok(false)
}

/// Refuses to remove a tree that nobody means.
///
/// # Errors
/// For an empty path, the root, a home directory, and a path that ends in `.` or `..`.
pub fn check_removable(path: &[u8]) -> Result<(), TransferError> {
    let is_root = FtpPath::new(path).is_none_or(|path| path.normalized() == FtpPath::root());
    let last = names::last(path);
    if !is_root && !matches!(last, b"." | b"..") && !path.trim_ascii().is_empty() && last != b"~" {
        return Ok(());
    }
    let what = format!("usage: \"{}\" is not removed", show(path));
    Err(TransferError::request(what, "name what is in it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::scripted;

    #[test]
    fn roots_and_empty_names_are_not_removed() {
        for bad in [
            &b""[..],
            b"/",
            b"//",
            b"/.",
            b"/a/..",
            b"/a/.",
            b"~",
            b"~/",
            b".",
            b"..",
            b" ",
            b"/../",
        ] {
            assert!(check_removable(bad).is_err(), "{}", show(bad));
        }
        for good in [&b"/a"[..], b"/a/", b"~/a", b"a", b"/a/.b", b"/..a"] {
            assert!(check_removable(good).is_ok(), "{}", show(good));
        }
    }

    /// Runs `work` at a server that gives these replies to these verbs; returns the lines as well.
    async fn at<T>(
        replies: &[(&'static str, &str)],
        work: impl AsyncFnOnce(&mut Client) -> T,
    ) -> (T, Vec<String>) {
        let owned = |(verb, reply): &(&'static str, &str)| (*verb, (*reply).to_owned());
        let replies = replies.iter().chain([&("QUIT", "221 bye")]).map(owned);
        let (mut client, server) = scripted::session(replies.collect()).await;
        let using = async {
            let done = work(&mut client).await;
            client.close().await;
            done
        };
        tokio::join!(using, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_cannot_be_made_ends_the_climb() {
        let missing = "550 No such file or directory";
        let replies = [("MKD", missing), ("MLST", missing)];
        let (made, sent) = at(&replies, async |client| client.make_dirs(b"/a/b/c/").await).await;
        assert_eq!(made.unwrap_err().reply().unwrap().code().number(), 550);
        let made = sent.iter().filter(|line| line.starts_with("MKD"));
        assert_eq!(
            made.collect::<Vec<_>>(),
            ["MKD /a/b/c", "MKD /a/b", "MKD /a"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_in_the_guise_of_a_directory_is_not_entered() {
        let replies = [
            ("MLST", "250-\r\n type=dir; /a\r\n250 ok"),
            ("DELE", "250 gone"),
        ];
        let (removed, sent) = at(&replies, async |client| {
            Box::pin(client.remove_all(b"/a/")).await
        })
        .await;
        removed.unwrap();
        assert_eq!(sent, ["MLST /a", "SITE RDEL /a", "DELE /a", "QUIT"]);
    }

    #[tokio::test(start_paused = true)]
    async fn free_space_is_told_or_not() {
        for (reply, free) in [("213 77", Some(77)), ("502 what?", None)] {
            let asked = async |client: &mut Client| client.free_space(b"/a b").await;
            let (told, sent) = at(&[("AVBL", reply)], asked).await;
            assert_eq!(told.unwrap(), free);
            assert_eq!(sent, ["AVBL /a b", "QUIT"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn raw_lines_go_out_unless_they_move_data() {
        let (refused, sent) = at(&[("SITE", "211 none")], async |client| {
            assert_eq!(client.raw(b"SITE QUOTA").await.unwrap().text(), "none");
            let mut refused = Vec::new();
            for line in [&b"RETR /a"[..], b"pasv", b"", b"NOOP\r\nDELE /a"] {
                refused.push(client.raw(line).await.is_err());
            }
            refused
        })
        .await;
        assert_eq!((refused, sent.len()), (vec![true; 4], 2));
    }
}
