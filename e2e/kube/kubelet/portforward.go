package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	echoPort = 7
	webPort  = 80
)

func (k *kubelet) servePortForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, k, string(containerOf(r)), "", options, idle, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// PortForward joins one stream to a port of the pod: 7 echoes, 80 is a web page, every other port is the same
// port of this machine's loopback.
func (k *kubelet) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	switch port {
	case echoPort:
		_, err := io.Copy(stream, stream)
		return err
	case webPort:
		return answerWeb(container(name), stream)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to connect to port %d: %w", port, err)
	}
	defer conn.Close()
	go func() {
		if _, err := io.Copy(conn, stream); err != nil {
			conn.Close() // The caller is gone; half-closing would leave the other side waiting.
			return
		}
		conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

// answerWeb answers every request of one connection with the names of the pod and the path.
func answerWeb(c container, stream io.ReadWriter) error {
	part := strings.SplitN(string(c), "_", 3)
	reader := bufio.NewReader(stream)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return nil // The end of the connection, or nothing that can be answered.
		}
		io.Copy(io.Discard, request.Body)
		body := fmt.Sprintf("%s/%s %s %s\n", part[0], part[1], request.Method, request.URL.Path)
		response := &http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close,
			Header:        http.Header{"Content-Type": {"text/plain"}},
			ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
		}
		if err := response.Write(stream); err != nil || request.Close {
			return err
		}
	}
}
