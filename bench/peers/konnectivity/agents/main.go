// Many konnectivity agents in one process, each with a connection and an identity of its own; started as the agent's
// own program starts one.
package main

import (
	"flag"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	"sigs.k8s.io/apiserver-network-proxy/pkg/agent"
	"sigs.k8s.io/apiserver-network-proxy/pkg/util"
)

func main() {
	port := flag.Int("port", 0, "the server's port for agents")
	ca := flag.String("ca", "", "trusted, PEM")
	cert := flag.String("cert", "", "of the agents, PEM")
	key := flag.String("key", "", "its key, PEM")
	count := flag.Int("count", 1, "how many")
	flag.Parse()

	never := make(chan struct{})
	for range *count {
		o := options.NewGrpcProxyAgentOptions()
		o.ProxyServerHost, o.ProxyServerPort = "127.0.0.1", *port
		tls, err := util.GetClientTLSConfig(*ca, *cert, *key, o.ProxyServerHost, o.AlpnProtos)
		if err != nil {
			log.Fatal(err)
		}
		clients := o.ClientSetConfig(
			grpc.WithTransportCredentials(credentials.NewTLS(tls)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.KeepaliveTime, PermitWithoutStream: true}),
		).NewAgentClientSet(never, never)
		responses := agent.NewResponseBasedCounter(clients)
		clients.SetServerCounter(agent.NewAggregateServerCounter(nil, responses, o.ServerCountSource))
		clients.Serve()
	}
	<-never
}
