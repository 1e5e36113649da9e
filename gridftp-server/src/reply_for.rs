//! The one table from errors to replies.

use ftp_wire::reply::{Code, Reply};
use gridftp_data::{ErrorKind as Data, Wait};
use gridftp_dsi::error::ErrorKind as Storage;

use crate::auth::Refused;
use crate::error::{Error, Forbidden, NodeFault, chain};

/// Turns an error into a reply: a code for clients, the whole chain in words, and the class word of
/// GridFTP (`GlobusError: v=1 c=…`).
pub(crate) fn reply_for(error: &Error) -> Reply {
    // The node has chosen the code by this table.
    if let Error::Node(NodeFault::Refused { failed, .. }) = error {
        return failed.reply.clone();
    }
    let (code, class) = classify(error);
    let story = chain(error);
    let errno = error
        .storage()
        .and_then(errno)
        .map(|number| number.to_string());
    let mut fields: Vec<(&str, &str)> = Vec::with_capacity(3);
    if let Some(errno) = &errno {
        fields.push(("GridFTP-Errno", errno));
    }
    fields.push(("GridFTP-Reason", &story));
    match class {
        Some(class) => Reply::globus_error(code, &story, class, &fields),
        None => Reply::new(code, story),
    }
}

/// The operating system's number for a storage error, where it has one.
fn errno(error: &gridftp_dsi::error::Error) -> Option<i32> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(number) = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error)
        {
            return Some(number);
        }
        next = cause.source();
    }
    None
}

fn classify(error: &Error) -> (Code, Option<&'static str>) {
    const CHANNEL: Option<&str> = Some("DATA_CHANNEL_COMMUNICATION_FAILURE");
    match error {
        Error::Login(Refused::Incorrect | Refused::LockedOut) => (Code::of::<530>(), None),
        // The session ends with it.
        Error::Login(Refused::Full | Refused::Busy) => (Code::of::<421>(), None),
        Error::NotLoggedIn | Error::Unmapped(_) => (Code::of::<530>(), None),
        Error::Storage(error) => storage(error.kind()),
        Error::Data(error) => match error.kind() {
            Data::NoChannel => (Code::of::<425>(), None),
            Data::Open | Data::Full | Data::Timeout(Wait::Connect | Wait::Accept) => {
                (Code::of::<425>(), CHANNEL)
            }
            Data::Protocol
            | Data::Closed
            | Data::Limit
            | Data::Timeout(Wait::Receive | Wait::Send | Wait::Part) => {
                (Code::of::<426>(), CHANNEL)
            }
            Data::Corrupt => (Code::of::<426>(), Some("INCORRECT_CHECKSUM")),
            Data::Timeout(Wait::Storage) => (Code::of::<451>(), Some("INTERNAL_ERROR")),
            Data::Storage => error
                .storage_error()
                .map_or((Code::of::<451>(), Some("INTERNAL_ERROR")), |e| {
                    storage(e.kind())
                }),
        },
        Error::Unvisited(_) => (Code::of::<425>(), CHANNEL),
        Error::Refusing { error, .. } => classify(error),
        Error::Node(fault) => match fault {
            NodeFault::NoNode | NodeFault::NoChannel => (Code::of::<425>(), None),
            NodeFault::Refused { failed, .. } => (failed.reply.code(), None),
            NodeFault::Lost { .. }
            | NodeFault::Silent(_)
            | NodeFault::Unknown(_)
            | NodeFault::Protocol(_) => (Code::of::<426>(), CHANNEL),
            NodeFault::Amount { .. } | NodeFault::Absent { .. } | NodeFault::Size { .. } => {
                (Code::of::<451>(), Some("INTERNAL_ERROR"))
            }
            NodeFault::NotShared => (Code::of::<504>(), None),
        },
        Error::Forbidden(Forbidden::Family(_)) => (Code::of::<522>(), None),
        Error::Forbidden(
            Forbidden::Write | Forbidden::ThirdParty | Forbidden::LowPort | Forbidden::NoProtection,
        ) => (Code::of::<550>(), Some("PERMISSION_DENIED")),
        Error::NotThroughLayers | Error::RestartOfText => (Code::of::<504>(), None),
        Error::Stack(_) | Error::NotWhitelisted(_) | Error::Credential(_) => {
            (Code::of::<500>(), None)
        }
        Error::NothingToResume { .. } | Error::Repeated { .. } | Error::RestartBeyondEnd { .. } => {
            (Code::of::<554>(), None)
        }
        Error::Short { .. } | Error::Unmarked { .. } | Error::Holes { .. } => {
            (Code::of::<426>(), CHANNEL)
        }
        Error::Unproven { .. } => (Code::of::<550>(), Some("INCORRECT_CHECKSUM")),
        Error::Aborted(_) | Error::Overtime => (Code::of::<426>(), None),
        Error::Measured(_) => (Code::of::<450>(), None),
        Error::NoSuchChecksum => (Code::of::<504>(), None),
    }
}

fn storage(kind: Storage) -> (Code, Option<&'static str>) {
    const INTERNAL: Option<&str> = Some("INTERNAL_ERROR");
    match kind {
        Storage::NotFound => (Code::of::<550>(), Some("PATH_NOT_FOUND")),
        Storage::Denied | Storage::Outside | Storage::ReadOnly => {
            (Code::of::<550>(), Some("PERMISSION_DENIED"))
        }
        // RFC 959 §5.4: MKD has no 553, and clients expect 550 for an existing directory.
        Storage::Exists => (Code::of::<550>(), Some("PATH_EXISTS")),
        Storage::NotDirectory => (Code::of::<550>(), Some("NOT_A_DIRECTORY")),
        Storage::IsDirectory => (Code::of::<550>(), Some("IS_A_DIRECTORY")),
        Storage::NotEmpty | Storage::NotRegular | Storage::Malformed => {
            (Code::of::<550>(), INTERNAL)
        }
        Storage::NoSpace => (Code::of::<552>(), Some("NO_SPACE_LEFT")),
        Storage::Quota => (Code::of::<552>(), Some("QUOTA_EXCEEDED")),
        Storage::TooLarge => (Code::of::<552>(), INTERNAL),
        Storage::BadName => (Code::of::<553>(), INTERNAL),
        Storage::Busy | Storage::Unavailable => (Code::of::<450>(), INTERNAL),
        Storage::Changed | Storage::Io => (Code::of::<451>(), INTERNAL),
        Storage::Mismatch => (Code::of::<550>(), Some("INCORRECT_CHECKSUM")),
        Storage::Incomplete => (Code::of::<426>(), INTERNAL),
        Storage::Unsupported => (Code::of::<504>(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AbortedBy;

    #[track_caller]
    fn assert_reply(error: &Error, code: u16, class: Option<&str>) {
        let reply = reply_for(error);
        assert_eq!(reply.code().number(), code, "{reply}");
        assert_eq!(reply.error_class().as_deref(), class, "{reply}");
    }

    #[test]
    fn every_kind_of_storage_error_has_its_code() {
        for (kind, code, class) in [
            (Storage::NotFound, 550, Some("PATH_NOT_FOUND")),
            (Storage::Denied, 550, Some("PERMISSION_DENIED")),
            (Storage::Outside, 550, Some("PERMISSION_DENIED")),
            (Storage::ReadOnly, 550, Some("PERMISSION_DENIED")),
            (Storage::Exists, 550, Some("PATH_EXISTS")),
            (Storage::NotDirectory, 550, Some("NOT_A_DIRECTORY")),
            (Storage::IsDirectory, 550, Some("IS_A_DIRECTORY")),
            (Storage::NotEmpty, 550, Some("INTERNAL_ERROR")),
            (Storage::NotRegular, 550, Some("INTERNAL_ERROR")),
            (Storage::NoSpace, 552, Some("NO_SPACE_LEFT")),
            (Storage::Quota, 552, Some("QUOTA_EXCEEDED")),
            (Storage::TooLarge, 552, Some("INTERNAL_ERROR")),
            (Storage::BadName, 553, Some("INTERNAL_ERROR")),
            (Storage::Busy, 450, Some("INTERNAL_ERROR")),
            (Storage::Unavailable, 450, Some("INTERNAL_ERROR")),
            (Storage::Changed, 451, Some("INTERNAL_ERROR")),
            (Storage::Io, 451, Some("INTERNAL_ERROR")),
            (Storage::Mismatch, 550, Some("INCORRECT_CHECKSUM")),
            (Storage::Malformed, 550, Some("INTERNAL_ERROR")),
            (Storage::Incomplete, 426, Some("INTERNAL_ERROR")),
            (Storage::Unsupported, 504, None),
        ] {
            assert_reply(&gridftp_dsi::Error::new(kind, "open").into(), code, class);
        }
    }

    #[test]
    fn the_reply_has_the_whole_chain_and_the_errno() {
        let cause = std::io::Error::from_raw_os_error(2);
        let error = gridftp_dsi::Error::new(Storage::NotFound, "open")
            .at("/x")
            .because(cause);
        let text = reply_for(&error.into()).to_string();
        assert!(
            text.starts_with("550-storage: open /x: no such file or directory"),
            "{text}"
        );
        assert!(
            text.contains("\r\n550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n"),
            "{text}"
        );
        assert!(text.contains("550-GridFTP-Errno: 2\r\n"), "{text}");
        let reason = "550-GridFTP-Reason: storage: open /x: no such file or directory\r\n";
        assert!(text.contains(reason), "{text}");
        assert!(text.ends_with("550 End.\r\n"), "{text}");
    }

    #[test]
    fn refusals_of_this_server_have_their_codes() {
        assert_reply(&Error::Login(Refused::LockedOut), 530, None);
        assert_reply(&Error::Login(Refused::Full), 421, None);
        assert_reply(&Forbidden::Family(1).into(), 522, None);
        assert_reply(
            &Forbidden::ThirdParty.into(),
            550,
            Some("PERMISSION_DENIED"),
        );
        assert_reply(&Error::RestartBeyondEnd { held: 2, length: 1 }, 554, None);
        assert_reply(&Error::NothingToResume { missing: 0 }, 554, None);
        assert_reply(&Error::Aborted(AbortedBy::Client), 426, None);
        let aborted = Error::Aborted(AbortedBy::Client).beside_refused(vec![[192, 0, 2, 1].into()]);
        assert_reply(&aborted, 426, None);
        assert_reply(&Error::Overtime, 426, None);
        assert_reply(&Error::Measured(4), 450, None);
        let full = gridftp_data::Descriptors::new(0).take(1).unwrap_err();
        let class = Some("DATA_CHANNEL_COMMUNICATION_FAILURE");
        assert_reply(&full.into(), 425, class);
    }
}
