package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// lingerer gives out connections that are not closed under their peer. client-go pings every five seconds; where a ping
// meets a connection that the kubelet has closed, kube-apiserver closes its caller's, too, and what it had not passed on
// is lost: `kubectl exec pod -- cat file`, directly and read at 20 MB/s, so that 100 MiB take five seconds, lost up to
// 5 MB in 10 of 20 runs. So the end is said, as a close does, and then whatever comes is read until the peer closes.
type lingerer struct{ net.Listener }

// linger is how long a peer may take for what has been sent to it.
const linger = 10 * time.Minute

func (l lingerer) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &lingering{TCPConn: tcp, closed: make(chan struct{})}, nil
	}
	return conn, err
}

type lingering struct {
	*net.TCPConn
	once   sync.Once
	closed chan struct{}
	// reading is held by who reads.
	reading sync.Mutex
}

func (c *lingering) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (c *lingering) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := c.TCPConn.Read(p)
	if err != nil && c.isClosed() {
		err = net.ErrClosed
	}
	return n, err
}

// SetReadDeadline does nothing once the deadline is the lingering's own.
func (c *lingering) SetReadDeadline(t time.Time) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	return c.TCPConn.SetReadDeadline(t)
}

func (c *lingering) SetDeadline(t time.Time) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	return c.TCPConn.SetDeadline(t)
}

// Close says the end and returns; who reads and who writes is woken.
func (c *lingering) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		c.TCPConn.SetDeadline(time.Unix(1, 0))
		err = c.TCPConn.CloseWrite()
		go func() {
			defer c.TCPConn.Close()
			c.reading.Lock()
			defer c.reading.Unlock()
			c.TCPConn.SetReadDeadline(time.Now().Add(linger))
			io.Copy(io.Discard, c.TCPConn)
		}()
	})
	return err
}
