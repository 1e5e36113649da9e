//! The set-up of a session's data connections: their hosts, their protection, and the host that has
//! them.

use std::net::SocketAddr;
use std::sync::Arc;

use ftp_proto::security::DataProtection;
use ftp_proto::types::Outcome;
use ftp_wire::command::Family;
use gridftp_cluster::{self as message, DataIdentity, Open};
use gridftp_data::Peers;
use gridftp_dsi::Dsi;

use crate::action::{Executor, Finished, Work};
use crate::auth::Admitted;
use crate::config::ThirdParty;
use crate::data::{Buffers, DataLayer, DataTls, Side};
use crate::error::{Error, Forbidden, chain};
use crate::nodes::{AskedRate, NodeRule};

impl<D: Dsi> Executor<D> {
    /// Takes the data side; makes one on first use, after a loss, and where the client turns from a
    /// single address to stripes on a front end that serves only these by its nodes.
    pub(crate) fn side(&mut self, striped: Option<bool>) -> Side {
        let front = self.shared.config.front.as_ref();
        let account = self.account.as_ref();
        let by_nodes = front.zip(account).filter(|(front, _)| {
            let before = matches!(self.side, Some(Side::Nodes(_)));
            !front.hybrid || striped.unwrap_or(before)
        });
        let by_nodes = by_nodes.map(|(front, account)| (front, self.opening(account)));
        let mut side = match (self.side.take(), by_nodes) {
            (Some(Side::Here(side)), None) => return Side::Here(side),
            (Some(Side::Nodes(side)), Some((_, opening))) if side.opens_with(&opening) => {
                return Side::Nodes(side);
            }
            (_, None) => {
                let user = account.map_or("", |account| account.user.name.as_str());
                Side::Here(Box::new(self.shared.data_side(&self.policy, user)))
            }
            (_, Some((front, opening))) => {
                let (front, rate) = (Arc::clone(front), AskedRate::of(&self.rate));
                Side::Nodes(Box::new(self.shared.node_side(front, opening, rate)))
            }
        };
        for (of, stack) in &self.stacks {
            if let Err(error) = side.set_stack(*of, Some(stack)) {
                // It was allowed when the client chose it.
                tracing::error!(error = %chain(&error), "the stack of a session is lost");
            }
        }
        side
    }

    /// The first message of this session to a node.
    fn opening(&self, account: &Admitted) -> Open {
        Open {
            // Control characters would not be taken by the nodes, nor belong in their logs.
            task: self.client.task.escape_debug().take(256).collect(),
            client: SocketAddr::new(self.ends.peer, 0),
            // With its credential, if the storage acts for users.
            user: account.user.clone(),
            limits: message::SessionLimits {
                connect_timeout: self.policy.connect_timeout,
                stall_timeout: self.policy.stall_timeout,
                max_streams: self.policy.max_streams,
            },
        }
    }

    /// The hosts of data connections with this protection on nodes, and its credential.
    fn node_rule(&self, protection: &DataProtection) -> Result<NodeRule, Error> {
        // The session that TLS resumes is here, the certificate of a node another one.
        if protection.is_tls() {
            return Err(Forbidden::NoProtection.into());
        }
        // An expired credential is refused here, with the remedy.
        let layer = self.grid.layer(protection).map_err(Error::Stack)?;
        Ok(NodeRule {
            peers: self.peers(protection),
            protection: protection.clone(),
            identity: match layer {
                Some(_) => self.grid.for_nodes(),
                None => DataIdentity::default(),
            },
        })
    }

    /// The hosts of data connections with this protection, and the layer of it.
    fn rule(&self, protection: &DataProtection) -> Result<(Peers, Option<DataLayer>), Error> {
        let layer = match (&self.policy.tls, &self.tls) {
            (Some(tls), Some(session)) if protection.is_tls() => {
                let tls = DataTls::new(Arc::clone(session), tls.reuse, self.ends.peer);
                Some(DataLayer::Tls(tls))
            }
            _ => {
                let grid = self.grid.layer(protection).map_err(Error::Stack)?;
                grid.map(|layer| DataLayer::Grid(Box::new(layer)))
            }
        };
        if layer.is_none() && protection.is_some() {
            return Err(Forbidden::NoProtection.into());
        }
        Ok((self.peers(protection), layer))
    }

    /// The hosts that data connections with this protection may be of.
    pub(crate) fn peers(&self, protection: &DataProtection) -> Peers {
        let own = self.ends.peer;
        let account = self.account.as_ref();
        let is_user = account.is_some_and(|account| account.by_password);
        let is_authenticated = match protection {
            tls if tls.is_tls() => is_user,
            // The host's own credential is no proof to others that the user is at work.
            grid => grid.is_some() && self.grid.user_credential().is_some(),
        };
        match &self.shared.config.third_party {
            // A stranger gets nothing.
            _ if is_authenticated => Peers::AnyBeside(own),
            ThirdParty::All => Peers::AnyBeside(own),
            ThirdParty::Users if is_user => Peers::AnyBeside(own),
            ThirdParty::Networks(networks) => Peers::Among(own, Arc::clone(networks)),
            ThirdParty::Off | ThirdParty::Users => Peers::Only(own),
        }
    }

    pub(crate) fn listen(
        &mut self,
        family: Option<Family>,
        buffers: Buffers,
        protection: &DataProtection,
        stripes: Option<u32>,
    ) -> Work {
        let ends = self.ends;
        match self.side(Some(stripes.is_some())) {
            Side::Here(mut side) => {
                side.bound.clone_from(&self.rate.borrow());
                let rule = self.rule(protection);
                Box::pin(async move {
                    let listening = match rule {
                        Ok(rule) => side.listen(ends, family, buffers, rule).await,
                        Err(error) => Err(error),
                    };
                    let listening = listening.map(|address| Outcome::Listening(vec![address]));
                    Finished::new(listening).with(Side::Here(side))
                })
            }
            Side::Nodes(mut side) => {
                let rule = self.node_rule(protection);
                Box::pin(async move {
                    let stripes = stripes.unwrap_or(1);
                    let listening = match rule {
                        Ok(rule) => side.listen(stripes, family, buffers, &rule).await,
                        Err(error) => Err(error),
                    };
                    Finished::new(listening.map(Outcome::Listening)).with(Side::Nodes(side))
                })
            }
        }
    }

    pub(crate) fn connect(&mut self, to: Vec<SocketAddr>, protection: &DataProtection) -> Work {
        match self.side(Some(to.len() > 1)) {
            Side::Here(mut side) => {
                side.bound.clone_from(&self.rate.borrow());
                let rule = self.rule(protection);
                let set = rule.and_then(|rule| side.connect_to(to, self.ends, rule));
                let finished = Finished::new(set.map(|()| Outcome::Done)).with(Side::Here(side));
                Box::pin(std::future::ready(finished))
            }
            Side::Nodes(mut side) => {
                let rule = self.node_rule(protection);
                Box::pin(async move {
                    let set = match rule {
                        Ok(rule) => side.connect_to(&to, &rule).await,
                        Err(error) => Err(error),
                    };
                    Finished::new(set.map(|()| Outcome::Done)).with(Side::Nodes(side))
                })
            }
        }
    }
}
