//! `Environment`: the user, the variables and the folders that decide where files are sought.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that are read.
const VARIABLES: &[&str] = &[
    "GLOBUSMAP",
    "GLOBUS_LOCATION",
    "GRIDMAP",
    "GRIDMAPDIR",
    "X509_CERT_DIR",
    "X509_USER_CERT",
    "X509_USER_KEY",
    "X509_USER_PROXY",
    "X509_VHOST_CRED_DIR",
];

/// The user, the variables and the folders of a process.
#[derive(Debug, Clone)]
pub struct Environment {
    uid: u32,
    home: Option<PathBuf>,
    variables: BTreeMap<String, OsString>,
    system: PathBuf,
    temporary: PathBuf,
}

impl Environment {
    /// That of this process. The home is `$HOME`, or else that of the user database.
    #[must_use]
    pub fn of_process() -> Self {
        let variables = VARIABLES.iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some(((*name).to_owned(), value))
        });
        Self {
            home: std::env::home_dir(),
            variables: variables.collect(),
            ..Self::new(rustix::process::geteuid().as_raw())
        }
    }

    /// That of a user without home and variables.
    #[must_use]
    pub fn new(uid: u32) -> Self {
        Self {
            uid,
            home: None,
            variables: BTreeMap::new(),
            system: PathBuf::from("/etc/grid-security"),
            temporary: PathBuf::from("/tmp"),
        }
    }

    /// Sets the home of the user.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the folder in the place of `/etc/grid-security`.
    #[must_use]
    pub fn system(mut self, folder: impl Into<PathBuf>) -> Self {
        self.system = folder.into();
        self
    }

    /// Sets the folder in the place of `/tmp`.
    #[must_use]
    pub fn temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary = folder.into();
        self
    }

    /// The effective user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether a variable has a value that is not empty.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.path(name).is_some()
    }

    /// A path in a variable that is not empty.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let value = self.variables.get(name)?;
        (!value.is_empty()).then(|| value.into())
    }

    /// A path below the home.
    pub(crate) fn in_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }

    /// A path below `$GLOBUS_LOCATION`.
    pub(crate) fn in_globus(&self, path: &str) -> Option<PathBuf> {
        self.path("GLOBUS_LOCATION").map(|root| root.join(path))
    }

    pub(crate) fn in_system(&self, path: &str) -> PathBuf {
        self.system.join(path)
    }

    /// The place of the user's proxy: `$X509_USER_PROXY`, or else `/tmp/x509up_u<uid>`.
    #[must_use]
    pub fn proxy_file(&self) -> PathBuf {
        self.path("X509_USER_PROXY")
            .unwrap_or_else(|| self.default_proxy_file())
    }

    pub(crate) fn default_proxy_file(&self) -> PathBuf {
        self.temporary.join(format!("x509up_u{}", self.uid))
    }

    /// The directory of trusted authorities: `$X509_CERT_DIR`, or else the first that exists of
    /// `~/.globus/certificates`, `/etc/grid-security/certificates` and
    /// `$GLOBUS_LOCATION/share/certificates`.
    ///
    /// Without any of them it is that of the system, so that the error names it.
    #[must_use]
    pub fn trust_directory(&self) -> PathBuf {
        if let Some(given) = self.path("X509_CERT_DIR") {
            return given;
        }
        let system = self.in_system("certificates");
        let places = [
            self.in_home(".globus/certificates"),
            Some(system.clone()),
            self.in_globus("share/certificates"),
        ];
        let mut places = places.into_iter().flatten();
        places.find(|place| place.is_dir()).unwrap_or(system)
    }

    /// The grid-mapfile: `$GRIDMAP` or `$GLOBUSMAP`, or else `/etc/grid-security/grid-mapfile` for
    /// root and `~/.gridmap` for others.
    #[must_use]
    pub fn grid_map_file(&self) -> PathBuf {
        let given = self.path("GRIDMAP").or_else(|| self.path("GLOBUSMAP"));
        let own = || (self.uid != 0).then(|| self.in_home(".gridmap")).flatten();
        given
            .or_else(own)
            .unwrap_or_else(|| self.in_system("grid-mapfile"))
    }

    /// The directory of the credentials of further host names, `$X509_VHOST_CRED_DIR`.
    #[must_use]
    pub fn host_directory(&self) -> Option<PathBuf> {
        self.path("X509_VHOST_CRED_DIR")
    }

    /// The directory of the leases of pool accounts, `$GRIDMAPDIR`.
    #[must_use]
    pub fn grid_map_directory(&self) -> Option<PathBuf> {
        self.path("GRIDMAPDIR")
    }
}

/// A list of paths for a message.
pub(crate) fn listed(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| path.display().to_string());
    let paths: Vec<String> = paths.collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn variables_precede_the_user_and_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let base = Environment::new(1000).system(root.join("sys"));
        assert_eq!(base.trust_directory(), root.join("sys/certificates"));
        assert_eq!(base.grid_map_file(), root.join("sys/grid-mapfile"));
        assert_eq!(base.proxy_file(), Path::new("/tmp/x509up_u1000"));

        let own = base.home(root.join("home"));
        assert_eq!(own.grid_map_file(), root.join("home/.gridmap"));
        assert_eq!(own.trust_directory(), root.join("sys/certificates"));
        std::fs::create_dir_all(root.join("home/.globus/certificates")).unwrap();
        assert_eq!(
            own.trust_directory(),
            root.join("home/.globus/certificates")
        );
        let super_user = Environment::new(0).system("/s").home("/root");
        assert_eq!(super_user.grid_map_file(), Path::new("/s/grid-mapfile"));

        let told = own
            .variable("X509_CERT_DIR", "/cas")
            .variable("GLOBUSMAP", "/map")
            .variable("GRIDMAP", "")
            .variable("X509_USER_PROXY", "/proxy");
        assert_eq!(told.trust_directory(), Path::new("/cas"));
        assert_eq!(told.grid_map_file(), Path::new("/map"));
        assert_eq!(told.proxy_file(), Path::new("/proxy"));
    }
}
