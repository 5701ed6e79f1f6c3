//! The streams that the hub opens, each in a task of its own that the process owns. The dialer bounds how many there
//! are; a stream that breaks concerns nobody but its request.

use std::sync::Arc;

use fairlead_dialer::{Session, Stream, serve};
use tracing::debug;

use crate::{context::AgentContext, proxy::RequestProxy};

/// Takes streams until the session has ended.
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
    let _open = context.metrics.hold_stream();
    let handler = move |request| {
        let proxy = proxy.clone();
        async move { proxy.handle(request).await }
    };
    if let Err(error) = serve(stream, handler).await {
        debug!(%error, "stream broke");
    }
}
