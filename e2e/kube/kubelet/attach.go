package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

func (k *kubelet) serveAttach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, k, string(containerOf(r)), "", r.PathValue("container"), options,
		idle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// AttachContainer joins the container's main process until that ends or the caller goes. Every container is
// one with `stdinOnce`: when the caller's input ends, so does the main process's.
func (k *kubelet) AttachContainer(_ context.Context, name, _, _ string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	p, err := k.mainOf(container(name), tty, out, errOut)
	if err != nil {
		return err
	}
	defer p.detach(out, errOut)
	gone := make(chan struct{})
	if p.terminal != nil && resize != nil {
		go func() {
			followSize(p.terminal, resize)
			close(gone)
		}()
	}
	if in != nil {
		go func() {
			io.Copy(p.stdin, in)
			p.endInput()
		}()
	}
	select {
	case <-p.done:
	case <-gone:
	}
	return nil
}

// mainProcess is what attach speaks to. It is started by the first caller and outlives the callers; each sees
// what is printed while attached.
type mainProcess struct {
	stdin    io.WriteCloser
	terminal *os.File // nil without a TTY
	done     chan struct{}
	stdout   fanOut
	stderr   fanOut
}

// mainOf attaches the caller's outputs before the process can print.
func (k *kubelet) mainOf(c container, tty bool, out, errOut io.WriteCloser) (*mainProcess, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.mains[c]; p != nil {
		select {
		case <-p.done:
			os.Rename(k.logFile(c), k.previousLogFile(c))
		default:
			p.attach(out, errOut)
			return p, nil
		}
	}
	cmd, err := k.command(c, k.main)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(k.logFile(c), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &mainProcess{
		done:   make(chan struct{}),
		stdout: fanOut{name: "stdout", log: file},
		stderr: fanOut{name: "stderr", log: file},
	}
	p.attach(out, errOut)
	if err := p.start(cmd, tty, file); err != nil {
		file.Close()
		return nil, err
	}
	k.mains[c] = p
	return p, nil
}

func (p *mainProcess) start(cmd *exec.Cmd, tty bool, log io.Closer) error {
	var err error
	if tty {
		if p.terminal, err = pty.Start(cmd); err != nil {
			return err
		}
		p.stdin = p.terminal
	} else {
		cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
		if p.stdin, err = cmd.StdinPipe(); err != nil {
			return err
		}
		if err = cmd.Start(); err != nil {
			return err
		}
	}
	go func() {
		if p.terminal != nil {
			io.Copy(&p.stdout, p.terminal)
		}
		cmd.Wait()
		if p.terminal != nil {
			p.terminal.Close()
		}
		log.Close()
		close(p.done)
	}()
	return nil
}

func (p *mainProcess) endInput() {
	if p.terminal != nil {
		io.WriteString(p.terminal, endOfFile)
		return
	}
	p.stdin.Close()
}

func (p *mainProcess) attach(out, errOut io.Writer) {
	p.stdout.add(out)
	p.stderr.add(errOut)
}

func (p *mainProcess) detach(out, errOut io.Writer) {
	p.stdout.remove(out)
	p.stderr.remove(errOut)
}

// fanOut gives each attached caller what is written, and the log each whole line.
type fanOut struct {
	name string

	mu       sync.Mutex
	attached []io.Writer
	log      io.Writer
	line     []byte
}

func (f *fanOut) add(w io.Writer) {
	if w == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached = append(f.attached, w)
}

func (f *fanOut) remove(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(w)
}

func (f *fanOut) drop(w io.Writer) {
	var kept []io.Writer
	for _, other := range f.attached {
		if other != w {
			kept = append(kept, other)
		}
	}
	f.attached = kept
}

func (f *fanOut) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.attached {
		if _, err := w.Write(b); err != nil {
			f.drop(w)
		}
	}
	f.line = append(f.line, b...)
	for {
		text, rest, found := bytes.Cut(f.line, []byte("\n"))
		if !found {
			return len(b), nil
		}
		fmt.Fprintf(f.log, "%s %s F %s\n", time.Now().UTC().Format(time.RFC3339Nano), f.name, bytes.TrimRight(text, "\r"))
		f.line = append([]byte(nil), rest...)
	}
}
