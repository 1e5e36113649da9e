//! `Measurements`: the measurements of anonymous users that run, counted for each host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ftp_proto::types::TransferKind;

use crate::admission::host;
use crate::auth::Admitted;
use crate::error::Error;

/// Measurements of anonymous users of one host at once: each may fill the link and costs the client
/// nothing, neither a file here nor one there.
const MOST: usize = 4;

/// The measurements of anonymous users by host; bounded by the sessions.
#[derive(Debug, Default)]
pub(crate) struct Measurements(Mutex<HashMap<IpAddr, usize>>);

/// Counts one measurement until it is dropped.
#[derive(Debug)]
pub(crate) struct Measuring<'a> {
    all: &'a Measurements,
    host: IpAddr,
}

impl Measurements {
    /// Counts in a measurement of an anonymous user; `None` for any other transfer.
    ///
    /// # Errors
    /// [`Error::Measured`] at the limit of the host.
    pub(crate) fn enter(
        &self,
        kind: &TransferKind,
        account: &Admitted,
        from: IpAddr,
    ) -> Result<Option<Measuring<'_>>, Error> {
        let is_measurement = matches!(
            kind,
            TransferKind::RetrieveMemory { .. } | TransferKind::StoreMemory { .. }
        );
        if !is_measurement || account.by_password {
            return Ok(None);
        }
        let host = host(from);
        let mut running = self.lock();
        let of_host = running.entry(host).or_default();
        if *of_host == MOST {
            return Err(Error::Measured(MOST));
        }
        *of_host += 1;
        Ok(Some(Measuring { all: self, host }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        let mut running = self.all.lock();
        if let Some(of_host) = running.get_mut(&self.host) {
            *of_host -= 1;
            if *of_host == 0 {
                running.remove(&self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::memory::MemoryLimits;
    use ftp_wire::path::FtpPath;
    use gridftp_dsi::DsiPath;

    use super::*;
    use crate::auth::admit;

    #[test]
    fn anonymous_users_of_one_host_have_few_at_once() {
        let all = Measurements::default();
        let (path, most) = (FtpPath::root(), MemoryLimits::new(1, 1));
        let down = TransferKind::RetrieveMemory {
            path: path.clone(),
            most,
        };
        let up = TransferKind::StoreMemory { path, most };
        let account = |by_password| admit("a", DsiPath::root(), false, by_password);
        let (anonymous, user) = (account(false), account(true));
        let enter = |kind, account, from: &str| all.enter(kind, account, from.parse().unwrap());
        // One /64, in both directions.
        let mut running: Vec<_> = (0..MOST)
            .map(|n| {
                let kind = if n % 2 == 0 { &down } else { &up };
                enter(kind, &anonymous, &format!("2001:db8::{n}")).unwrap()
            })
            .collect();
        let refused = enter(&up, &anonymous, "2001:db8::ffff");
        assert!(matches!(refused, Err(Error::Measured(MOST))));
        assert!(enter(&up, &anonymous, "2001:db8:0:1::1").is_ok());
        assert!(matches!(enter(&up, &user, "2001:db8::1"), Ok(None)));
        drop(running.pop());
        assert!(enter(&down, &anonymous, "2001:db8::1").is_ok());
        drop(running);
        assert!(all.lock().is_empty());
    }
}
