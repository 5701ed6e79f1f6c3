// A client of Kubernetes with client-go, as operators and tools use it. It reads KUBECONFIG, runs the exec plugin of the
// kubeconfig, and prints one JSON object:
//
//	client-go whoami          user and groups of a SelfSubjectReview
//	client-go watch SECONDS   lists namespaces every second with one client, and counts them; the token is refreshed meanwhile
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{CurrentContext: os.Getenv("KUBE_CONTEXT")}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch {
	case len(args) == 1 && args[0] == "whoami":
		return whoami(ctx, client)
	case len(args) == 2 && args[0] == "watch":
		seconds, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return watch(ctx, client, seconds)
	default:
		return fmt.Errorf("usage: client-go whoami | watch SECONDS")
	}
}

func whoami(ctx context.Context, client *kubernetes.Clientset) error {
	reviews := client.AuthenticationV1().SelfSubjectReviews()
	review, err := reviews.Create(ctx, &authentication.SelfSubjectReview{}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	user := review.Status.UserInfo
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"username": user.Username, "groups": user.Groups})
}

func watch(ctx context.Context, client *kubernetes.Clientset, seconds int) error {
	lists := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); lists++ {
		if _, err := client.CoreV1().Namespaces().List(ctx, meta.ListOptions{}); err != nil {
			return fmt.Errorf("list %d: %w", lists, err)
		}
		time.Sleep(time.Second)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"lists": lists})
}
