//! `Inventory`: the files that are at a destination server, by one listing of each directory.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use ftp_wire::facts::{Entry, EntryKind, FactSet};
use tokio::sync::{mpsc, oneshot};

use super::job::Facts;
use crate::client::Client;
use crate::error::TransferError;
use crate::manner::Target;
use crate::names;
use crate::options::ConnectOptions;
use crate::progress::Observer;
use crate::url::Site;

/// Directories that are remembered.
const DIRS: usize = 64;
/// Names that are remembered, in all directories together: some 20 MB.
const NAMES: usize = 1 << 18;
/// Questions that wait.
const WAITING: usize = 16;

/// The answer to a question.
pub(crate) enum Told {
    /// The object of that name.
    Target(Target),
    /// No listing tells: the server is asked for the one name.
    Unlisted,
}

struct Question {
    path: Vec<u8>,
    answer: oneshot::Sender<Result<Told, TransferError>>,
}

/// Asks a task that lists directories over a session of its own, which ends with it.
#[derive(Debug)]
pub(crate) struct Inventory {
    questions: mpsc::Sender<Question>,
}

impl Inventory {
    pub(crate) fn start(
        site: Site,
        options: Arc<ConnectOptions>,
        observer: Arc<dyn Observer>,
        follows: bool,
    ) -> Self {
        let (questions, mut asked) = mpsc::channel::<Question>(WAITING);
        let mut lister = Lister {
            site,
            options,
            observer,
            client: None,
            tables: Tables::default(),
            follows,
        };
        tokio::spawn(async move {
            while let Some(Question { path, answer }) = asked.recv().await {
                let told = Box::pin(lister.tell(&path)).await;
                let _gone = answer.send(told);
            }
            if let Some(client) = lister.client {
                client.close().await;
            }
        });
        Self { questions }
    }

    /// The object at `path`.
    ///
    /// # Errors
    /// When the server cannot be asked.
    ///
    /// # Cancel safety
    /// The listing goes on, and is remembered.
    pub(crate) async fn at(&self, path: &[u8]) -> Result<Told, TransferError> {
        let path = path.to_vec();
        let (answer, told) = oneshot::channel();
        let ended = || TransferError::request("destination: its listing has ended", "");
        let question = Question { path, answer };
        self.questions.send(question).await.map_err(|_| ended())?;
        told.await.map_err(|_| ended())?
    }
}

struct Lister {
    site: Site,
    options: Arc<ConnectOptions>,
    observer: Arc<dyn Observer>,
    client: Option<Box<Client>>,
    tables: Tables,
    /// Whether links are taken for the objects that they lead to.
    follows: bool,
}

impl Lister {
    async fn tell(&mut self, path: &[u8]) -> Result<Told, TransferError> {
        let dir = names::parent(path);
        if let Some(told) = self.tables.told(dir, names::last(path)) {
            return Ok(told);
        }
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                let (options, observer) = (Arc::clone(&self.options), Arc::clone(&self.observer));
                let connected = Client::connect_with(&self.site, options, observer);
                Box::new(Box::pin(connected).await?)
            }
        };
        let (mut table, follows) = (self.tables.begin(dir), self.follows);
        // A listing in another form tells no times.
        if client.abilities.mlst {
            let asked = if dir.is_empty() { b"." } else { dir };
            let listed = client.list(asked, |entry, known| table.add(&entry, known, follows));
            match Box::pin(listed).await {
                Ok(()) => {}
                Err(error) if error.control().is_some_and(|e| e.is_not_found()) => {}
                Err(error) if error.reply().is_some() => table.whole = false,
                Err(error) => return Err(error),
            }
        } else {
            table.whole = false;
        }
        self.client = Some(client);
        self.tables.keep(table);
        Ok(self
            .tables
            .told(dir, names::last(path))
            .unwrap_or(Told::Unlisted))
    }
}

/// The listings that are remembered, the oldest first.
#[derive(Default)]
struct Tables {
    tables: VecDeque<Table>,
    hasher: RandomState,
}

/// The listing of one directory.
struct Table {
    dir: Vec<u8>,
    /// The objects by the hashes of their names.
    files: HashMap<u64, Target>,
    /// Whether all names are in it.
    whole: bool,
    hasher: RandomState,
}

impl Tables {
    fn begin(&self, dir: &[u8]) -> Table {
        Table {
            dir: dir.to_vec(),
            files: HashMap::new(),
            whole: true,
            hasher: self.hasher.clone(),
        }
    }

    fn keep(&mut self, mut table: Table) {
        table.files.shrink_to_fit();
        self.tables.push_back(table);
        let names = |tables: &VecDeque<Table>| tables.iter().map(|t| t.files.len()).sum::<usize>();
        while self.tables.len() > DIRS || (self.tables.len() > 1 && names(&self.tables) > NAMES) {
            self.tables.pop_front();
        }
    }

    fn told(&self, dir: &[u8], name: &[u8]) -> Option<Told> {
        let table = self.tables.iter().rev().find(|table| table.dir == dir)?;
        let hash = self.hasher.hash_one(name);
        Some(match (table.files.get(&hash), table.whole) {
            (Some(target), _) => Told::Target(*target),
            (None, true) => Told::Target(Target::Nothing),
            (None, false) => Told::Unlisted,
        })
    }
}

impl Table {
    fn add(&mut self, entry: &Entry, known: FactSet, follows: bool) {
        if self.files.len() == NAMES {
            self.whole = false;
            return;
        }
        let target = match entry.kind {
            _ if entry.is_link() && !follows => Target::Link,
            EntryKind::File => Target::File(Facts::of_entry(entry, known)),
            kind if kind.is_dir() => Target::Dir,
            _ => Target::Other,
        };
        let hash = self.hasher.hash_one(names::last(&entry.name));
        self.files.insert(hash, target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(tables: &Tables, dir: &str, names: usize) -> Table {
        let mut table = tables.begin(dir.as_bytes());
        for n in 0..names {
            let line = format!("type=file;size={n};modify=20200101000000; {n}");
            let (entry, known) = Entry::parse(line.as_bytes()).unwrap();
            table.add(&entry, known, true);
        }
        table
    }

    #[test]
    fn names_of_a_whole_listing_are_there_or_not() {
        let mut tables = Tables::default();
        tables.keep(table(&tables, "/d", 10));
        let size = |name: &str| match tables.told(b"/d", name.as_bytes()) {
            Some(Told::Target(Target::File(facts))) => facts.size,
            Some(Told::Target(Target::Nothing)) => None,
            _ => panic!("{name}"),
        };
        assert_eq!((size("3"), size("10")), (Some(3), None));
        assert!(tables.told(b"/e", b"3").is_none());
    }

    #[test]
    fn no_directory_costs_more_memory_for_its_size() {
        let mut tables = Tables::default();
        tables.keep(table(&tables, "/large", NAMES + 1));
        let last = NAMES.to_string();
        assert!(matches!(
            tables.told(b"/large", b"1"),
            Some(Told::Target(_))
        ));
        assert!(matches!(
            tables.told(b"/large", last.as_bytes()),
            Some(Told::Unlisted)
        ));
        for n in 0..2 * DIRS {
            tables.keep(table(&tables, &format!("/{n}"), 1));
        }
        assert!(tables.tables.len() <= DIRS && tables.told(b"/large", b"1").is_none());
    }
}
