package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// endOfFile is what a terminal's line discipline takes for the end of input (Ctrl-D).
const endOfFile = "\x04"

func (k *kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, string(containerOf(r)), "", r.PathValue("container"), r.URL.Query()["command"], options,
		idle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer runs one command in the container's folder.
func (k *kubelet) ExecInContainer(_ context.Context, name, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	cmd, err := k.command(container(name), command)
	if err != nil {
		return err
	}
	if tty {
		return exitCode(runInTerminal(cmd, in, out, resize))
	}
	cmd.Stdout, cmd.Stderr = out, errOut
	if in != nil {
		// Not cmd.Stdin: Wait would wait for the caller's end of input, which need not come.
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(stdin, in)
			stdin.Close()
		}()
	}
	return exitCode(cmd.Run())
}

func runInTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		followSize(terminal, resize)
		select {
		case <-ended:
		default:
			// The resize stream ends with the connection, not with the caller's input: hang up, as a
			// terminal does.
			syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)
		}
	}()
	if in != nil {
		go func() {
			io.Copy(terminal, in)
			io.WriteString(terminal, endOfFile)
		}()
	}
	// The read ends with EIO when the last process closes its side.
	io.Copy(out, terminal)
	return cmd.Wait()
}

// followSize returns when the caller is gone.
func followSize(terminal *os.File, resize <-chan remotecommand.TerminalSize) {
	for size := range resize {
		pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
	}
}

// exitCode turns a process's end into the error whose code the streaming library passes on.
func exitCode(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return err
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
}
