// Application-controller and repo-server of Argo CD, and a redis in memory: the name of the program chooses one.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	if err := run(filepath.Base(os.Args[0])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string) error {
	switch name {
	case "argocd-application-controller":
		return controller.NewCommand().Execute()
	case "argocd-repo-server":
		return reposerver.NewCommand().Execute()
	case "redis":
		return serveRedis()
	}
	return fmt.Errorf("%s: unknown name of the program", name)
}

// serveRedis prints its address, and serves until it is interrupted.
func serveRedis() error {
	server, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Println(server.Addr())
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	// Entries expire by this clock only.
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-clock.C:
			server.FastForward(time.Second)
		case <-interrupted:
			return nil
		}
	}
}
