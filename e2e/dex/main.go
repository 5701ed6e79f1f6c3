// Dex, an OpenID Connect provider, with people and groups of a file.
//
// Everything but the people is Dex's own server package: endpoints, sessions, keys and their rotation. Dex's command
// needs cgo, and its static passwords have no groups.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dexidp/dex/connector"
	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/dexidp/dex/web"
)

// A person of the file, which is read again at each sign-in and refresh.
type person struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Verified bool     `json:"verified"`
	Password string   `json:"password"`
	Groups   []string `json:"groups"`
}

// Connector with the people of the file.
type people struct {
	File string `json:"file"`
}

func (p *people) Open(string, *slog.Logger) (connector.Connector, error) { return p, nil }
func (p *people) Prompt() string                                         { return "" }

func (p *people) find(matches func(person) bool, s connector.Scopes) (connector.Identity, bool, error) {
	text, err := os.ReadFile(p.File)
	if err != nil {
		return connector.Identity{}, false, err
	}
	var all []person
	if err := json.Unmarshal(text, &all); err != nil {
		return connector.Identity{}, false, err
	}
	for _, it := range all {
		if matches(it) {
			identity := connector.Identity{UserID: it.ID, Username: it.Name, PreferredUsername: it.Name, Email: it.Email, EmailVerified: it.Verified}
			if s.Groups {
				identity.Groups = it.Groups
			}
			return identity, true, nil
		}
	}
	return connector.Identity{}, false, nil
}

func (p *people) Login(_ context.Context, s connector.Scopes, name, password string) (connector.Identity, bool, error) {
	return p.find(func(it person) bool { return it.Name == name && it.Password == password }, s)
}

func (p *people) Refresh(_ context.Context, s connector.Scopes, known connector.Identity) (connector.Identity, error) {
	identity, found, err := p.find(func(it person) bool { return it.ID == known.UserID }, s)
	if err == nil && !found {
		err = fmt.Errorf("no such person")
	}
	return identity, err
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	cert, key := flag.String("cert", "", "certificate file"), flag.String("key", "", "key file")
	file, client := flag.String("people", "", "file of the people"), flag.String("client", "fairlead", "public client")
	valid, rotate := flag.Duration("valid", time.Hour, "lifetime of tokens"), flag.Duration("rotate", time.Hour, "rotation of keys")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server.ConnectorsConfig["people"] = func() server.ConnectorConfig { return &people{} }
	config, err := json.Marshal(people{File: *file})
	if err != nil {
		return err
	}
	store := storage.WithStaticClients(memory.New(log), []storage.Client{{ID: *client, Name: *client, Public: true}})
	store = storage.WithStaticConnectors(store, []storage.Connector{{ID: "people", Type: "people", Name: "people", Config: config}})
	policy, err := server.NewRefreshTokenPolicy(log, true, "", "", "")
	if err != nil {
		return err
	}
	issuer := "https://" + listener.Addr().String()
	dex, err := server.NewServer(context.Background(), server.Config{
		Issuer: issuer, Storage: store, SkipApprovalScreen: true, Logger: log, RefreshTokenPolicy: policy,
		IDTokensValidFor: *valid, RotateKeysAfter: *rotate, Web: server.WebConfig{WebFS: web.FS()},
		AllowedGrantTypes: []string{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
	})
	if err != nil {
		return err
	}
	fmt.Println(issuer)
	return http.ServeTLS(listener, dex, *cert, *key)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
