//! The storages of the configuration, and their places in the tree.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use gridftp_dsi::{Budget, DsiPath, DynDsi, Mount, Mounts};
use serde::Deserialize;
use xio::{ByteSize, Entry, Error, ErrorKind, Operation, Plan};

use super::{BadConfig, Options};
use crate::storage::{Defaults, KINDS, LAYERS, NODES, StorageKind, StorageLayer};

/// The storages as the administrator writes them: one for the whole tree, or sections of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum StorageOption {
    /// `NAME[:OPTIONS]`.
    Whole(String),
    /// `[[storage]]`.
    Mounted(Vec<StorageSection>),
}

/// A section `[[storage]]` of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct StorageSection {
    /// The directory at which the storage is mounted.
    pub at: String,
    /// `NAME[:OPTIONS]`.
    pub storage: String,
    /// Whether nobody may change anything there.
    #[serde(default)]
    pub read_only: bool,
    /// The users who may use it; all without it.
    pub users: Option<Vec<String>>,
}

impl FromStr for StorageOption {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::Whole(text.to_owned()))
    }
}

/// The checked storages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storages {
    places: Vec<Place>,
    defaults: Defaults,
}

/// A storage, for the examination of a configuration.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) kind: &'static StorageKind,
    pub(crate) is_read_only: bool,
    /// The directory on this machine, and that of the index of partial uploads.
    pub(crate) tree: Option<(PathBuf, Option<PathBuf>)>,
}

/// A storage and its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    at: DsiPath,
    entry: Entry,
    /// The layers above it, lowest first.
    layers: Vec<Entry>,
    is_read_only: bool,
    users: Option<Vec<String>>,
}

/// Bytes of memory for the parts of all uploads.
pub(super) fn part_memory(options: &Options) -> u64 {
    options.part_memory.map_or(128 << 20, ByteSize::bytes)
}

impl Storages {
    /// Checks the options; without any of them there is no storage.
    pub(crate) fn new(options: &Options) -> Result<Self, BadConfig> {
        let defaults = Defaults {
            root: options.root.clone(),
            index: options.partial_index.clone(),
            sync: options.sync_writes.unwrap_or(false),
            part_memory: part_memory(options),
            read_memory: Budget::new(part_memory(options)),
        };
        let whole = |text: &str| StorageSection {
            at: "/".to_owned(),
            storage: text.to_owned(),
            read_only: false,
            users: None,
        };
        let sections = match &options.storage {
            Some(StorageOption::Mounted(sections)) => sections.clone(),
            Some(StorageOption::Whole(text)) => vec![whole(text)],
            None if defaults.root.is_some() => vec![whole("posix")],
            None => Vec::new(),
        };
        let places = sections
            .iter()
            .map(|section| Place::new(section, &defaults));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        if let Some(place) = places.iter().find(|place| place.is_at_nodes()) {
            let cluster = options.cluster.as_ref();
            let is_alone = places.len() == 1 && place.at.is_root() && place.layers.is_empty();
            let fact = match cluster {
                _ if !is_alone => Some("it stands alone, at /: the nodes mount what there is"),
                Some(cluster) if cluster.hybrid => {
                    Some("with --hybrid the front end moves data itself: give it a storage")
                }
                _ => None,
            };
            fact.map_or(Ok(()), |fact| Err(place.at_fault(fact)))?;
        }
        let needs_root = places.iter().any(Place::needs_root);
        if needs_root && defaults.root.is_none() {
            return Err(BadConfig::Needs {
                key: "storage posix",
                needed: "its root, or --root",
            });
        }
        Ok(Self { places, defaults })
    }

    /// The directory of this machine at the root of the tree.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        let place = self.places.iter().find(|place| place.at.is_root())?;
        let (root, _) = place.kind().tree(&place.entry, &self.defaults)?;
        Some(root)
    }

    /// Describes the storages.
    pub(crate) fn describe(&self) -> Vec<Described> {
        let describe = |place: &Place| Described {
            kind: place.kind(),
            is_read_only: place.is_read_only,
            tree: place.kind().tree(&place.entry, &self.defaults),
        };
        self.places.iter().map(describe).collect()
    }

    /// Whether the data nodes of a front end have the storage.
    pub(crate) fn is_at_nodes(&self) -> bool {
        self.places.iter().any(Place::is_at_nodes)
    }

    /// Opens the storages as one tree; `None` without any. `nodes` is the storage of the data nodes
    /// of a front end.
    pub(crate) fn open(
        &self,
        nodes: Option<Arc<dyn DynDsi>>,
    ) -> gridftp_dsi::Result<Option<Arc<dyn DynDsi>>> {
        let mut mounts = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let storage = match &nodes {
                Some(nodes) if place.is_at_nodes() => Arc::clone(nodes),
                _ => place.open(&self.defaults)?,
            };
            if let [_] = self.places.as_slice()
                && place.at.is_root()
                && !place.is_read_only
                && place.users.is_none()
            {
                return Ok(Some(storage));
            }
            let mut mount = Mount::new(place.at.clone(), storage);
            if place.is_read_only {
                mount = mount.read_only();
            }
            if let Some(users) = &place.users {
                mount = mount.for_users(users.iter().cloned());
            }
            mounts.push(mount);
        }
        match mounts.is_empty() {
            true => Ok(None),
            false => Ok(Some(Arc::new(Mounts::new(mounts)?))),
        }
    }
}

impl Place {
    fn new(section: &StorageSection, defaults: &Defaults) -> Result<Self, BadConfig> {
        let at_fault = |why| BadConfig::Storage {
            at: section.at.clone(),
            why,
        };
        let bad = |fact: &str| {
            let error = Error::new(ErrorKind::BadOption, "storage", Operation::Plan, fact);
            at_fault(error)
        };
        let at = DsiPath::new(section.at.as_bytes());
        let at = at.ok_or_else(|| bad("the place is an absolute path, as /archive"))?;
        let plan: Plan = section.storage.parse().map_err(at_fault)?;
        let [entry, layers @ ..] = plan.entries() else {
            return Err(bad("name a storage, as posix:root=/srv/data"));
        };
        let Some(kind) = kind_of(entry) else {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let known = names.join(", ");
            let fact = format!("unknown storage {}, known are {known}", entry.driver());
            return Err(bad(&fact));
        };
        kind.check(entry, defaults).map_err(at_fault)?;
        for entry in layers {
            let Some(layer) = layer_of(entry) else {
                let known: Vec<_> = LAYERS.iter().map(|layer| layer.name).collect();
                let (name, known) = (entry.driver(), known.join(", "));
                let fact = format!("{name} does not stand over a storage, but {known}");
                return Err(bad(&fact));
            };
            layer.check(entry).map_err(at_fault)?;
        }
        if section.users.as_ref().is_some_and(Vec::is_empty) {
            return Err(bad("users names nobody: leave it out for all"));
        }
        Ok(Self {
            at,
            entry: entry.clone(),
            layers: layers.to_vec(),
            is_read_only: section.read_only,
            users: section.users.clone(),
        })
    }

    fn open(&self, defaults: &Defaults) -> gridftp_dsi::Result<Arc<dyn DynDsi>> {
        let storage = self.kind().open(&self.entry, defaults)?;
        let layers = self.layers.iter();
        Ok(layers.fold(storage, |below, entry| match layer_of(entry) {
            Some(layer) => layer.open(entry, below),
            None => below,
        }))
    }

    fn kind(&self) -> &'static StorageKind {
        kind_of(&self.entry).expect("the name was checked")
    }

    /// The mistake of a storage in the wrong place.
    fn at_fault(&self, fact: &str) -> BadConfig {
        let at = self.at.as_bytes().escape_ascii().to_string();
        let why = Error::new(ErrorKind::BadOption, NODES, Operation::Plan, fact);
        BadConfig::Storage { at, why }
    }

    fn is_at_nodes(&self) -> bool {
        self.entry.driver() == NODES
    }

    fn needs_root(&self) -> bool {
        self.entry.driver() == "posix" && self.entry.options().all(|(key, _)| key != "root")
    }
}

fn kind_of(entry: &Entry) -> Option<&'static StorageKind> {
    KINDS.iter().find(|kind| kind.name == entry.driver())
}

fn layer_of(entry: &Entry) -> Option<&'static StorageLayer> {
    LAYERS.iter().find(|layer| layer.name == entry.driver())
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::{Kind, User};

    use super::*;

    fn storages(change: impl FnOnce(&mut Options)) -> Result<Storages, BadConfig> {
        let mut options = Options::default();
        change(&mut options);
        Storages::new(&options)
    }

    fn named(text: &str) -> Result<Storages, BadConfig> {
        storages(|o| o.storage = Some(StorageOption::Whole(text.to_owned())))
    }

    #[test]
    fn mistakes_are_told_with_the_place() {
        for (text, part) in [
            ("tape", "unknown storage tape, known are "),
            ("null:size=1", "size"),
            (
                "posix:root=/,null",
                "null does not stand over a storage, but staged",
            ),
            ("process", "socket"),
            ("process:socket=here", "absolute path"),
            ("null,staged:status=/bin/true", "recall"),
            ("null,staged:status=true;recall=/bin/true", "absolute path"),
            ("posix:sync=maybe;root=/", "sync"),
            ("posix", "--root"),
        ] {
            let error = named(text).unwrap_err();
            let error = crate::error::chain(&error);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(named("posix:root=/srv").is_ok());
        let staged = "null,staged:status=/bin/true;recall=/bin/true;wait=5s";
        assert!(named(staged).unwrap().open(None).is_ok());
    }

    #[cfg(feature = "object")]
    #[test]
    fn a_store_has_a_url_and_an_index() {
        for (text, part) in [
            ("object", "url=s3://bucket"),
            ("object:url=http://x/y", "is not a store"),
            ("object:url=s3://b;part=many", "part"),
            ("object:url=s3://b;secret=x", "secret"),
        ] {
            let error = named(text).unwrap_err();
            let error = crate::error::chain(&error);
            assert!(error.contains(part), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        let endpoint = "endpoint=http://127.0.0.1:1;region=r";
        let without = named(&format!("object:url=s3://b/p%2520q;{endpoint}")).unwrap();
        let error = crate::error::chain(&without.open(None).unwrap_err());
        assert!(error.contains("index="), "{error}");
        let text = format!("object:url=s3://b/p%2520q;{endpoint};index={folder}/index");
        let storage = named(&text).unwrap().open(None).unwrap().unwrap();
        assert_eq!(storage.capabilities_dyn().name, "object");
    }

    #[cfg(feature = "object")]
    #[test]
    fn parts_that_exceed_the_memory_of_the_configuration_are_told_before_the_start() {
        for (memory, part, fits) in [(128, "129M", false), (256, "129M", true), (4, "", false)] {
            let storages = storages(|o| {
                let option = if part.is_empty() { "" } else { ";part=" };
                let text = format!("object:url=s3://b{option}{part}");
                o.storage = Some(StorageOption::Whole(text));
                o.part_memory = Some(ByteSize::new(memory << 20));
            });
            assert_eq!(storages.is_ok(), fits, "{memory} {part}");
        }
    }

    #[tokio::test]
    async fn sections_are_mounted_in_one_tree() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "text").unwrap();
        let text = format!(
            "[[storage]]\nat = \"/\"\nstorage = \"memory:limit=1M\"\n\
             [[storage]]\nat = \"/data\"\nstorage = \"posix:root={}\"\nread-only = true\n",
            folder.path().display()
        );
        let options: Options = toml::from_str(&text).unwrap();
        let storages = Storages::new(&options).unwrap();
        let tree = storages.open(None).unwrap().unwrap();
        let user = User::new("u", DsiPath::root(), true);
        let path = |text: &str| DsiPath::new(text.as_bytes()).unwrap();
        let found = tree.stat_dyn(&user, &path("/data/a")).await.unwrap();
        assert_eq!((found.kind, found.size), (Kind::File, 4));
        assert!(tree.remove_dyn(&user, &path("/data/a")).await.is_err());
        tree.make_dir_dyn(&user, &path("/new")).await.unwrap();
        assert!(storages_of("").open(None).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_section_may_be_for_some_users() {
        let section = "[[storage]]\nat = \"/\"\nstorage = \"memory\"\nusers = ";
        let tree = storages_of(&format!("{section}[\"ann\"]")).open(None);
        let tree = tree.unwrap().unwrap();
        let path = DsiPath::new(b"/dir").unwrap();
        for (name, is_admitted) in [("ann", true), ("bob", false)] {
            let user = User::new(name, DsiPath::root(), true);
            let made = tree.make_dir_dyn(&user, &path).await;
            assert_eq!(made.is_ok(), is_admitted, "{name}");
        }
        let nobody: Options = toml::from_str(&format!("{section}[]")).unwrap();
        let error = crate::error::chain(&Storages::new(&nobody).unwrap_err());
        assert!(error.contains("users names nobody"), "{error}");
    }

    fn storages_of(text: &str) -> Storages {
        Storages::new(&toml::from_str(text).expect("it parses")).expect("no storage is named")
    }
}
