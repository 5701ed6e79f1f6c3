// Command vault serves a Vault with its data in memory, with the parts that the tests need: secrets of the kind KV, and the
// auth methods token, jwt, kubernetes and approle. The released program has many more, and is not built from its module alone: it takes its SDK
// from its own repository.
//
// It listens on the address of its argument and prints the real one. As each new Vault it is sealed, and not initialised.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	jwtauth "github.com/hashicorp/vault-plugin-auth-jwt"
	kubeauth "github.com/hashicorp/vault-plugin-auth-kubernetes"
	"github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

var builtins = registry{
	consts.PluginTypeSecrets:    {"kv": kv.Factory},
	consts.PluginTypeCredential: {"approle": approle.Factory, "jwt": jwtauth.Factory, "kubernetes": kubeauth.Factory},
}

// registry has the plugins by their type and name.
type registry map[consts.PluginType]map[string]logical.Factory

func (r registry) Contains(name string, pluginType consts.PluginType) bool {
	return r[pluginType][name] != nil
}

func (r registry) Get(name string, pluginType consts.PluginType) (func() (any, error), bool) {
	factory, found := r[pluginType][name]
	return func() (any, error) { return factory, nil }, found
}

func (r registry) Keys(pluginType consts.PluginType) []string {
	var names []string
	for name := range r[pluginType] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r registry) DeprecationStatus(name string, pluginType consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, pluginType)
}

func (r registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: vault ADDRESS")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	logger := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           storage,
		LogicalBackends:    builtins[consts.PluginTypeSecrets],
		CredentialBackends: builtins[consts.PluginTypeCredential],
		BuiltinRegistry:    builtins,
		DisableMlock:       true,
		Logger:             logger,
		DefaultLeaseTTL:    time.Hour,
		MaxLeaseTTL:        24 * time.Hour,
	})
	if err != nil {
		return err
	}
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{
		Core:           core,
		ListenerConfig: &configutil.Listener{},
	})
	fmt.Println("http://" + listener.Addr().String())
	return (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(listener)
}
