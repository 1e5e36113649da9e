//! The protection of data between two servers: each is told the other's identity or credential.

use ftp_proto::security::Level;
use ftp_wire::command::{Command, Dcau, Secret};

use crate::client::Client;
use crate::copy::Stop;
use crate::error::TransferError;
use crate::grid::{Grid, dcsc};
use crate::options::DataCredential;

const CLEAR_OR_RELAY: &str = "--dcau none --protect clear leaves data in clear text, or --relay \
                              always has it pass this machine";

/// The way by which two servers know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the settings of the login: in clear, or by one identity at both.
    Settled,
    /// Each is told the identity that the other has.
    Subjects,
    /// Both get one credential of the session, where they have none.
    Session,
}

/// Protects the data between two servers as was asked for.
///
/// # Errors
/// They cannot do so together, or one refuses it.
pub(super) async fn protect(source: &mut Client, destination: &mut Client) -> Result<(), Stop> {
    let way = way(source, destination).map_err(Stop::Fatal)?;
    let done = match way {
        Way::Settled => Ok(()),
        Way::Subjects => tell_subjects(source, destination).await,
        Way::Session => match share_session(source).await {
            Ok(()) => share_session(destination).await,
            failed => failed,
        },
    };
    done.map_err(|error| match error.is_gone() {
        true => Stop::Lost(error),
        false => Stop::Fatal(error),
    })
}

fn way(source: &Client, destination: &Client) -> Result<Way, TransferError> {
    let grids = [source, destination].map(|client| {
        let grid = client.guard.grid();
        grid.filter(|grid| grid.authenticates())
    });
    let (one, other) = match grids {
        [Some(one), Some(other)] => (one, other),
        [None, None] => {
            if source.data_protection().max(destination.data_protection()) == Level::Clear {
                return Ok(Way::Settled);
            }
            let what = "third party: two servers cannot protect the data between them by TLS, where \
                        each would wait for the other's handshake";
            let remedy = "--protect clear leaves it in clear text, or --relay always has it pass \
                          this machine";
            return Err(TransferError::request(what, remedy));
        }
        _ => {
            let what = "third party: only one of the servers authenticates data connections";
            return Err(TransferError::request(what, CLEAR_OR_RELAY));
        }
    };
    if one.has_session() && other.has_session() {
        return Ok(Way::Settled);
    }
    let choice = source.options.grid.data_credential;
    let told = |grid: &Grid| matches!(grid.protection().authentication, Dcau::Subject(_));
    match (one.identity(), other.identity()) {
        _ if told(one) || told(other) => Ok(Way::Settled),
        (Some(one), Some(other)) if one == other => Ok(Way::Settled),
        // Behind ssh there is nothing but a credential of the session.
        (Some(_), Some(_)) => {
            let able = source.abilities.dcsc && destination.abilities.dcsc;
            let own = choice == DataCredential::Own || !able;
            Ok(if own { Way::Subjects } else { Way::Session })
        }
        _ => Ok(Way::Session),
    }
}

/// Tells each server the identity of the other's credential.
async fn tell_subjects(source: &Client, destination: &Client) -> Result<(), TransferError> {
    for (told, of) in [(source, destination), (destination, source)] {
        if let Some(identity) = of.guard.grid().and_then(Grid::identity) {
            let subject = Dcau::Subject(identity.to_string());
            told.ask(Command::Dcau(subject)).await?;
        }
    }
    Ok(())
}

/// Gives a server the credential of the session, unless it has got it before.
async fn share_session(client: &mut Client) -> Result<(), TransferError> {
    if client.guard.grid().is_none_or(Grid::has_session) {
        return Ok(());
    }
    let site = client.site().to_owned();
    if !client.abilities.dcsc {
        let what =
            format!("third party: {site}: it lists no DCSC, by which it would know the other");
        return Err(TransferError::request(what, CLEAR_OR_RELAY));
    }
    let unusable = |cause: crate::error::Cause| {
        let what = format!("third party: no credential of the session: {cause}");
        TransferError::request(what, "--data-cred own does without")
    };
    let session = client.options.grid.session().await.map_err(unusable)?;
    let text = dcsc(&session);
    client
        .ask(Command::Dcsc(Secret::new(format!("P {}", text.reveal()))))
        .await?;
    client.ask(Command::Dcau(Dcau::Own)).await?;
    client.use_session(session).map_err(unusable)
}
