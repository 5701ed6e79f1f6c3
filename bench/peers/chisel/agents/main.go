// Many chisel clients in one process, each with a connection and a reverse port of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	chclient "github.com/jpillora/chisel/client"
)

func main() {
	server := flag.String("server", "", "https://HOST:PORT")
	ca := flag.String("ca", "", "trusted, PEM")
	auth := flag.String("auth", "", "user:password")
	first := flag.Int("first", 0, "the hub's port of the first client")
	count := flag.Int("count", 1, "how many")
	to := flag.String("to", "", "host:port that each port stands for")
	flag.Parse()

	for number := range *count {
		client, err := chclient.NewClient(&chclient.Config{
			Server:        *server,
			Auth:          *auth,
			MaxRetryCount: -1,
			// What the program's own flags begin with.
			KeepAlive: 25 * time.Second,
			Remotes:   []string{fmt.Sprintf("R:127.0.0.1:%d:%s", *first+number, *to)},
			TLS:       chclient.TLSConfig{CA: *ca},
		})
		if err != nil {
			log.Fatal(err)
		}
		client.Info = false
		go func() { log.Print(client.Run()) }()
	}
	<-context.Background().Done()
}
