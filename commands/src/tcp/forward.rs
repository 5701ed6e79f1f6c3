//! `fairlead forward`: local ports whose connections go to addresses in a cluster.

use fairlead_api::Failure;
use fairlead_client::{Environment, ResetSocket};
use tokio::task::JoinSet;

use super::{
    TcpCluster,
    forward_spec::ForwardSpec,
    listener::{allow_many_connections, bind, local_address, serve, until_signal},
    relay::relay,
};
use crate::{args::ForwardArgs, output, runtime::block_on};

pub(crate) fn run(args: &ForwardArgs, environment: &Environment) -> Result<(), Failure> {
    let specs = args.forwards.iter().map(|it| ForwardSpec::parse(it));
    let specs = specs.collect::<Result<Vec<_>, _>>()?;
    allow_many_connections();
    block_on(async {
        let cluster = TcpCluster::find(environment, &args.cluster).await?;
        let mut bound = Vec::new();
        for spec in specs {
            bound.push((bind(spec.listen, args.allow_remote).await?, spec));
        }
        let mut serving = JoinSet::new();
        for (listener, spec) in bound {
            let (address, target) = (local_address(&listener)?, spec.target.clone());
            output::print(&format!(
                "Forwarding {address} to {target} in {}\n",
                cluster.id
            ))?;
            let cluster = cluster.clone();
            serving.spawn(serve(listener, move |local| {
                forward_one(cluster.clone(), spec.clone(), local)
            }));
        }
        until_signal(async { while serving.join_next().await.is_some() {} }).await
    })?
}

async fn forward_one(
    cluster: TcpCluster,
    spec: ForwardSpec,
    mut local: ResetSocket,
) -> Result<(), Failure> {
    let mut tunnel = cluster.open(&spec.target).await?;
    relay(&mut local, &mut tunnel.socket).await
}
