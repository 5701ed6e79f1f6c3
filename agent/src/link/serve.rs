//! Streams opened by the hub, each in a task of the process. The dialer bounds their number. A broken stream
//! affects only its own request.

use std::sync::Arc;

use fairlead_dialer::{Session, Stream};
use fairlead_exchange::serve_lines;
use tracing::debug;

use crate::{context::AgentContext, proxy::RequestProxy};

/// Serves streams until the session ends.
pub(crate) async fn streams(
    session: Session,
    context: Arc<AgentContext>,
    proxy: Arc<RequestProxy>,
) {
    while let Some(stream) = session.accept().await {
        context
            .process
            .spawn(one(stream, context.clone(), proxy.clone()));
    }
}

async fn one(stream: Stream, context: Arc<AgentContext>, proxy: Arc<RequestProxy>) {
    let _open = context.metrics.count_stream();
    if let Err(error) = serve_lines(stream, |received| proxy.serve(received)).await {
        debug!(%error, "stream broke");
    }
}
