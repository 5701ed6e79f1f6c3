// A hub and agents around remotedialer, as its own examples put them together: the hub is an HTTP server whose
// reverse proxy dials through the tunnel, an agent lets the hub dial what it can reach. Idle connections per host
// are raised, because Go's default of 2 makes the hub dial again for almost every request.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"
)

const (
	idHeader = "X-Tunnel-Id"
	// The agent that requests go to.
	first = "agent-0"
	// More than any scenario has clients.
	idle = 1024
)

func main() {
	logrus.SetLevel(logrus.WarnLevel)
	if len(os.Args) < 2 {
		log.Fatal("usage: remotedialer hub|agent ...")
	}
	var err error
	switch role, args := os.Args[1], os.Args[2:]; role {
	case "hub":
		err = hub(args)
	case "agent":
		err = agents(args)
	default:
		err = fmt.Errorf("no role %s", role)
	}
	log.Fatal(err)
}

func hub(args []string) error {
	flags := flag.NewFlagSet("hub", flag.ExitOnError)
	listen := flags.String("listen", "", "address for people and agents, TLS")
	plain := flags.String("plain", "", "address for people, plain HTTP")
	cert := flags.String("cert", "", "certificate, PEM")
	key := flags.String("key", "", "its key, PEM")
	upstream := flags.String("upstream", "", "URL that TLS requests go to")
	plainUpstream := flags.String("plain-upstream", "", "URL that plain requests go to")
	ca := flags.String("upstream-ca", "", "trusted by the hub, PEM")
	raw := flags.String("raw", "", "address for people, raw TCP inside of TLS")
	rawUpstream := flags.String("raw-upstream", "", "HOST:PORT that raw TCP goes to")
	flags.Parse(args)

	server := remotedialer.New(func(req *http.Request) (string, bool, error) {
		id := req.Header.Get(idHeader)
		return id, id != "", nil
	}, remotedialer.DefaultErrorWriter)
	roots, err := trust(*ca)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DialContext:         server.Dialer(first),
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
	}
	secure, err := forward(*upstream, transport)
	if err != nil {
		return err
	}
	open, err := forward(*plainUpstream, transport)
	if err != nil {
		return err
	}

	routes := http.NewServeMux()
	routes.Handle("/connect", server)
	routes.HandleFunc("/sessions", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(answer, len(server.ListClients()))
	})
	routes.Handle("/", secure)
	failed := make(chan error, 3)
	go func() { failed <- http.ListenAndServe(*plain, open) }()
	if *raw != "" {
		go func() { failed <- serveRaw(*raw, *cert, *key, *rawUpstream, server.Dialer(first)) }()
	}
	go func() {
		// HTTP/2 for clients that want it. Agents' WebSockets come without ALPN, by HTTP/1.1.
		front := &http.Server{Addr: *listen, Handler: routes}
		failed <- front.ListenAndServeTLS(*cert, *key)
	}()
	return <-failed
}

func forward(upstream string, transport http.RoundTripper) (http.Handler, error) {
	target, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:    func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:  transport,
		BufferPool: buffers{},
	}, nil
}

// serveRaw joins each TLS connection with one through the tunnel. The end of either side ends both.
func serveRaw(listen, cert, key, upstream string, dial remotedialer.Dialer) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", listen, &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer near.Close()
			far, err := dial(context.Background(), "tcp", upstream)
			if err != nil {
				logrus.Warn(err)
				return
			}
			defer far.Close()
			ended := make(chan struct{}, 2)
			for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					buffer := lent.Get().([]byte)
					io.CopyBuffer(ends[0], ends[1], buffer)
					lent.Put(buffer)
					ended <- struct{}{}
				}()
			}
			<-ended
		}()
	}
}

func agents(args []string) error {
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	connect := flags.String("connect", "", "wss://HOST:PORT/connect")
	ca := flags.String("ca", "", "trusted by the agents, PEM")
	count := flags.Int("count", 1, "how many agents, each with a session of its own")
	flags.Parse(args)

	roots, err := trust(*ca)
	if err != nil {
		return err
	}
	dialer := &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: roots}, HandshakeTimeout: 10 * time.Second}
	for number := range *count {
		headers := http.Header{idHeader: []string{fmt.Sprintf("agent-%d", number)}}
		go func() {
			for {
				// Rests for five seconds by itself when it fails.
				remotedialer.ClientConnect(context.Background(), *connect, headers, dialer,
					func(string, string) bool { return true }, nil)
			}
		}()
	}
	select {}
}

func trust(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}

// buffers lends what bodies are copied with, so that the proxy does not make 32 KiB of garbage a request.
type buffers struct{}

var lent = sync.Pool{New: func() any { return make([]byte, 32*1024) }}

func (buffers) Get() []byte  { return lent.Get().([]byte) }
func (buffers) Put(b []byte) { lent.Put(b) }
