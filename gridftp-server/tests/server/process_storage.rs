//! Storage in another process beside a directory: its crash fails its own transfers alone, and it may
//! retrieve files from an archive.

use std::fs;

use crate::example::Example;
use crate::process::Daemon;
use crate::support::{Ftp, bytes};

/// A server of a directory, with the example mounted at `/p`.
fn start(example: &Example) -> Daemon {
    let folder = example.dir();
    fs::create_dir(folder.join("root")).unwrap();
    let text = format!(
        "[[storage]]\nat = \"/\"\nstorage = \"posix:root={}\"\n\
         [[storage]]\nat = \"/p\"\nstorage = \"process:socket={}\"\n",
        folder.join("root").display(),
        example.socket().display()
    );
    let file = folder.join("gridftp.toml");
    fs::write(&file, text).unwrap();
    let config = file.to_str().unwrap();
    Daemon::start(folder, &["--config", config, "--anonymous", "rw"])
}

#[test]
fn a_crash_of_the_process_fails_its_own_transfers_alone() {
    let Some(mut example) = Example::start() else {
        return;
    };
    let server = start(&example);
    let tree = example.dir().join("tree");
    let content = bytes(300_000);
    let (mut theirs, mut ours) = (server.login(), server.login());
    assert_eq!(theirs.store("STOR /p/old", b"old").code, 226);
    let mut uploads = Vec::new();
    for (ftp, command) in [(&mut theirs, "STOR /p/f"), (&mut ours, "STOR /f")] {
        let mut data = ftp.data();
        ftp.ok(command, 150);
        data.write(&content[..100_000]);
        uploads.push(data);
    }
    example.kill();
    for mut data in uploads {
        data.write(&content[100_000..]);
        data.finish();
    }
    let failed = theirs.outcome();
    let text = failed.text();
    assert!(matches!(failed.code, 450 | 451), "{text}");
    assert!(
        text.contains("/p/f") && text.contains("the process at"),
        "{text}"
    );
    assert_eq!(ours.outcome().code, 226);
    assert!(fs::read(example.dir().join("root/f")).unwrap() == content);
    // Its session lives on, and tells others about their files.
    let gone = theirs.ok("SIZE /p/old", 450).text();
    assert!(gone.contains("the process at"), "{gone}");
    theirs.ok("SIZE /f", 213);
    example.restart();
    theirs.ok("SIZE /p/old", 213);
    theirs.ok("SIZE /p/f", 550);
    assert!(!tree.join("f").exists(), "a part has the final name");
    assert_eq!(theirs.store("STOR /p/f", &content).code, 226);
    assert!(fs::read(tree.join("f")).unwrap() == content);
    assert!(theirs.fetch("/p/f") == content);
}

/// Files are in an archive until there is a tape beside the tree.
const TAPE: &str = "
import os, time

class Tape(folder.Folder):
    def is_here(self):
        return os.path.exists(os.path.join(self.root, b'../tape'))
    def wait(self, seconds):
        end = time.monotonic() + seconds
        while not self.is_here() and time.monotonic() < end:
            time.sleep(0.02)
        return self.is_here()
    def Describe(self, request, context):
        described = super().Describe(request, context)
        described.stages = True
        return described
    def facts(self, path, found=None):
        facts = super().facts(path, found)
        facts.staged = self.is_here()
        return facts
    @folder.told
    def Stage(self, request):
        os.lstat(self.path(request.place))
        with open(os.path.join(self.root, b'../calls'), 'a') as calls:
            print(request.task, request.place.path.decode(), file=calls)
        return folder.messages.Staged(here=self.wait(request.within_ms / 1000))
    @folder.told
    def Open(self, request):
        self.wait(60)
        return self.keep(request, self.regular(self.path(request.place)))

folder.Folder = Tape
";

#[test]
fn the_process_retrieves_files_from_an_archive() {
    let Some(example) = Example::changed(TAPE) else {
        return;
    };
    fs::write(example.dir().join("tree/f"), "content").unwrap();
    let server = start(&example);
    let mut ftp = server.login();
    let is_staged = |ftp: &mut Ftp, fact: &str| ftp.ok("MLST /p/f", 250).text().contains(fact);
    assert!(is_staged(&mut ftp, "X.staged=false;"));
    ftp.ok("SITE TASKID move-1", 250);
    let waits = ftp.ok("SITE STAGE 0 /p/f", 450).text();
    assert!(
        waits.contains("/p/f: is being retrieved from the archive..."),
        "{waits}"
    );
    let mut other = server.login();
    let data = other.data();
    other.send("RETR /p/f");
    ftp.ok("SITE STAGE 0 /p/f", 450);
    fs::write(example.dir().join("tape"), "").unwrap();
    assert_eq!(other.outcome().code, 150);
    assert_eq!(data.read(), b"content");
    assert_eq!(other.outcome().code, 226);
    ftp.ok("SITE STAGE 60 /p/f", 250);
    assert!(is_staged(&mut ftp, "X.staged=true;"));
    let calls = fs::read_to_string(example.dir().join("calls")).unwrap();
    assert!(calls.lines().all(|call| call == "move-1 /f"), "{calls}");
    ftp.ok("SITE STAGE 0 /p/nothing", 550);
}
