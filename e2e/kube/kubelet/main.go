// Command kubelet stands in for the streaming half of a kubelet: logs, exec, attach and port-forward of
// every pod of every node, carried out on this machine. kwok keeps nodes and pods in their state; it has
// such a server too, but one that loses exit codes, never ends standard input and cannot attach to it.
//
// A container is a folder DIR/exec/NAMESPACE_POD_CONTAINER and a log DIR/logs/NAMESPACE_POD_CONTAINER.log
// (DIR/logs/default.log where that is missing) in the format of container runtimes. It has no image and no
// isolation: what runs in it is a program of this machine, run by the user who started the cluster.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// idle is how long a stream may be silent, the real kubelet's default.
const idle = 4 * time.Hour

type kubelet struct {
	dir string
	// main is the main process of every container.
	main []string

	mu    sync.Mutex
	mains map[container]*mainProcess
}

func main() {
	address := flag.String("address", "127.0.0.1:10250", "where to serve")
	dir := flag.String("dir", ".", "folder of exec/ and logs/")
	cert := flag.String("tls-cert-file", "", "serving certificate")
	key := flag.String("tls-private-key-file", "", "its key")
	clientCA := flag.String("client-ca-file", "", "who may call: holders of a certificate of this CA")
	mainCommand := flag.String("main", "cat", "the main process of every container, run by sh -c")
	flag.Parse()
	log.Fatal(serve(*address, *dir, *cert, *key, *clientCA, *mainCommand))
}

func serve(address, dir, cert, key, clientCA, mainCommand string) error {
	ca, err := os.ReadFile(clientCA)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New(clientCA + " holds no certificate")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	k := &kubelet{dir: dir, main: []string{"sh", "-c", mainCommand}, mains: map[container]*mainProcess{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.serveAttach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.servePortForward)
	server := &http.Server{
		Handler: mux,
		// SPDY upgrades need HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig:    &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots},
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return server.ServeTLS(lingerer{listener}, cert, key)
}

// container is NAMESPACE_POD_CONTAINER, none of which can hold an underscore: one string, because that is
// what the streaming library carries.
type container string

func containerOf(r *http.Request) container {
	return container(r.PathValue("namespace") + "_" + r.PathValue("pod") + "_" + r.PathValue("container"))
}

func (k *kubelet) logFile(c container) string {
	return filepath.Join(k.dir, "logs", string(c)+".log")
}

func (k *kubelet) previousLogFile(c container) string {
	return filepath.Join(k.dir, "logs", string(c)+".previous.log")
}

// command prepares a program that runs in the container's folder.
func (k *kubelet) command(c container, command []string) (*exec.Cmd, error) {
	part := strings.SplitN(string(c), "_", 3)
	if len(command) == 0 || len(part) != 3 {
		return nil, errors.New("no command, or no container")
	}
	folder := filepath.Join(k.dir, "exec", string(c))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "TERM=xterm", "HOME=" + folder,
		"HOSTNAME=" + part[1], "POD_NAMESPACE=" + part[0], "POD_NAME=" + part[1], "CONTAINER_NAME=" + part[2],
		// By this mark `cluster down` finds what a container left running.
		"FAIRLEAD_KUBE_DIR=" + k.dir,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// A grandchild that keeps the output open must not hold the session for ever.
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}
