// Program descriptions writes the parts of public API descriptions that fakes of Git servers need: `github.json`
// from GitHub's OpenAPI description, `gitea.json` from Gitea's, `gitlab.json` from GitLab's Go
// client, since no package has GitLab's description. `build` runs it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Schema is a schema of OpenAPI with the keywords that a check needs.
type Schema = map[string]any

// Operation is a request with its answers.
type Operation struct {
	// Query has the names of all query parameters.
	Query   []string `json:"query,omitempty"`
	Request Schema   `json:"request,omitempty"`
	// Answers have a schema for each status; null is an answer without content.
	Answers map[string]Schema `json:"answers"`
}

// Description has the operations of a server by "METHOD /path".
type Description struct {
	Source     string
	Operations map[string]Operation
	Schemas    map[string]Schema
}

// write makes a line of each operation and of each schema, so that a newer version is readable as a difference.
func (it Description) write(file string) error {
	var text bytes.Buffer
	source, err := json.Marshal(it.Source)
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "{\n\"source\": %s,\n\"operations\": {\n", source)
	if err := writeLines(&text, it.Operations); err != nil {
		return err
	}
	text.WriteString("},\n\"schemas\": {\n")
	if err := writeLines(&text, it.Schemas); err != nil {
		return err
	}
	text.WriteString("}\n}\n")
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func writeLines[T any](text *bytes.Buffer, values map[string]T) error {
	for at, name := range slices.Sorted(maps.Keys(values)) {
		value, err := json.Marshal(values[name])
		if err != nil {
			return err
		}
		if at > 0 {
			text.WriteString(",\n")
		}
		fmt.Fprintf(text, "%q: %s", name, value)
	}
	text.WriteString("\n")
	return nil
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: descriptions GITHUB_DESCRIPTION GITEA_DESCRIPTION FOLDER")
	}
	github, err := fromOpenAPI(os.Args[1], "GitHub Enterprise Server 3.19, npm package @octokit/openapi 23.0.2 (MIT)", githubOperations)
	if err != nil {
		log.Fatal("GitHub: ", err)
	}
	gitea, err := fromOpenAPI(os.Args[2], "Gitea 1.26, templates/swagger/v1_json.tmpl (MIT)", giteaOperations)
	if err != nil {
		log.Fatal("Gitea: ", err)
	}
	gitlab, err := fromClient()
	if err != nil {
		log.Fatal("GitLab: ", err)
	}
	for name, description := range map[string]Description{"github": github, "gitea": gitea, "gitlab": gitlab} {
		if err := description.write(filepath.Join(os.Args[3], name+".json")); err != nil {
			log.Fatal(err)
		}
	}
}
