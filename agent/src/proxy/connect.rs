//! Plain TCP by CONNECT, only to addresses named by the site operator, compared exactly.

use std::{io, time::Duration};

use fairlead_api::{Code, Failure};
use http::Uri;
use tokio::{net::TcpStream, time::timeout};

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Connects to the authority of a CONNECT.
///
/// # Errors
///
/// `FL-1503` if it is not in the list, `FL-1505` if it is unreachable.
pub(crate) async fn open(allowed: &[String], uri: &Uri) -> Result<TcpStream, Failure> {
    let requested = uri
        .authority()
        .map(http::uri::Authority::as_str)
        .unwrap_or_default();
    let Some(address) = allowed.iter().find(|address| address.as_str() == requested) else {
        return Err(Failure::because(
            Code::TargetRefused,
            format_args!("{requested:?} is not in its list"),
        ));
    };
    let unreachable = |cause: String| {
        Failure::because(Code::TargetUnreachable, format_args!("{address}: {cause}"))
    };
    match timeout(CONNECT_DEADLINE, connect(address)).await {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(error)) => Err(unreachable(error.to_string())),
        Err(_) => Err(unreachable(format!(
            "no answer within {} s",
            CONNECT_DEADLINE.as_secs()
        ))),
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
