package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

var githubOperations = []string{
	"GET /meta", "GET /user", "GET /users/{username}",
	"POST /admin/organizations", "POST /orgs/{org}/repos", "POST /user/repos",
	"GET /repos/{owner}/{repo}", "PATCH /repos/{owner}/{repo}", "DELETE /repos/{owner}/{repo}",
	"GET /repos/{owner}/{repo}/keys", "POST /repos/{owner}/{repo}/keys", "DELETE /repos/{owner}/{repo}/keys/{key_id}",
	"PUT /repos/{owner}/{repo}/contents/{path}",
	"GET /repos/{owner}/{repo}/git/ref/{ref}", "PATCH /repos/{owner}/{repo}/git/refs/{ref}",
	"GET /repos/{owner}/{repo}/git/commits/{commit_sha}", "POST /repos/{owner}/{repo}/git/commits",
	"GET /repos/{owner}/{repo}/git/trees/{tree_sha}", "POST /repos/{owner}/{repo}/git/trees",
	"GET /repos/{owner}/{repo}/actions/variables", "POST /repos/{owner}/{repo}/actions/variables",
	"PATCH /repos/{owner}/{repo}/actions/variables/{name}", "DELETE /repos/{owner}/{repo}/actions/variables/{name}",
	"GET /repos/{owner}/{repo}/actions/secrets", "GET /repos/{owner}/{repo}/actions/secrets/public-key",
	"PUT /repos/{owner}/{repo}/actions/secrets/{secret_name}", "DELETE /repos/{owner}/{repo}/actions/secrets/{secret_name}",
	"GET /repos/{owner}/{repo}/pulls", "GET /repos/{owner}/{repo}/pulls/{pull_number}",
	"PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
	"GET /repos/{owner}/{repo}/commits/{ref}/status", "GET /repos/{owner}/{repo}/commits/{ref}/check-runs",
}

var giteaOperations = []string{
	"GET /version", "GET /user", "GET /users/{username}",
	"GET /orgs/{org}", "POST /orgs", "POST /orgs/{org}/repos", "POST /user/repos",
	"GET /repos/{owner}/{repo}", "PATCH /repos/{owner}/{repo}", "DELETE /repos/{owner}/{repo}",
	"GET /repos/{owner}/{repo}/keys", "POST /repos/{owner}/{repo}/keys", "DELETE /repos/{owner}/{repo}/keys/{id}",
	"GET /repos/{owner}/{repo}/git/trees/{sha}", "POST /repos/{owner}/{repo}/contents",
	"GET /repos/{owner}/{repo}/actions/variables", "POST /repos/{owner}/{repo}/actions/variables/{variablename}",
	"PUT /repos/{owner}/{repo}/actions/variables/{variablename}", "DELETE /repos/{owner}/{repo}/actions/variables/{variablename}",
	"GET /repos/{owner}/{repo}/actions/secrets", "PUT /repos/{owner}/{repo}/actions/secrets/{secretname}",
	"DELETE /repos/{owner}/{repo}/actions/secrets/{secretname}",
	"GET /repos/{owner}/{repo}/pulls", "GET /repos/{owner}/{repo}/pulls/{index}",
	"POST /repos/{owner}/{repo}/pulls/{index}/merge", "GET /repos/{owner}/{repo}/commits/{ref}/status",
}

// Keywords of schemas that the check knows.
var keywords = []string{"type", "required", "enum", "nullable", "additionalProperties", "items", "properties", "oneOf", "anyOf", "allOf", "$ref"}

type openAPI struct {
	root    map[string]any
	schemas map[string]Schema
}

// fromOpenAPI reads a description of OpenAPI 3.0 or Swagger 2.0.
func fromOpenAPI(file, source string, names []string) (Description, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Description{}, err
	}
	it := openAPI{schemas: map[string]Schema{}}
	if err := json.Unmarshal(text, &it.root); err != nil {
		return Description{}, err
	}
	operations := map[string]Operation{}
	for _, name := range names {
		method, path, _ := strings.Cut(name, " ")
		found, is := object(object(it.root["paths"])[path])[strings.ToLower(method)]
		if !is {
			return Description{}, fmt.Errorf("no operation %s", name)
		}
		operations[name] = it.operation(object(found))
	}
	return Description{source, operations, it.schemas}, nil
}

func object(value any) map[string]any {
	found, _ := value.(map[string]any)
	return found
}

func list(value any) []any {
	found, _ := value.([]any)
	return found
}

// resolve follows a reference to a parameter, body or answer.
func (it *openAPI) resolve(value any) map[string]any {
	found := object(value)
	target, is := found["$ref"].(string)
	if !is {
		return found
	}
	var at any = it.root
	for _, part := range strings.Split(strings.TrimPrefix(target, "#/"), "/") {
		at = object(at)[part]
	}
	return it.resolve(at)
}

func (it *openAPI) operation(found map[string]any) Operation {
	operation := Operation{Answers: map[string]Schema{}}
	for _, one := range list(found["parameters"]) {
		parameter := it.resolve(one)
		switch parameter["in"] {
		case "query":
			operation.Query = append(operation.Query, parameter["name"].(string))
		case "body":
			operation.Request = it.schema(parameter["schema"])
		}
	}
	if body, is := found["requestBody"]; is {
		operation.Request = it.content(it.resolve(body))
	}
	for status, one := range object(found["responses"]) {
		answer := it.resolve(one)
		if schema, is := answer["schema"]; is {
			operation.Answers[status] = it.schema(schema)
		} else {
			operation.Answers[status] = it.content(answer)
		}
	}
	return operation
}

func (it *openAPI) content(message map[string]any) Schema {
	content := object(object(message["content"])["application/json"])
	if content == nil {
		return nil
	}
	return it.schema(content["schema"])
}

// schema copies the keywords of a schema, and the schemas that it refers to.
func (it *openAPI) schema(value any) Schema {
	found, kept := object(value), Schema{}
	for _, name := range keywords {
		value, is := found[name]
		if !is {
			continue
		}
		switch name {
		case "$ref":
			kept[name] = it.named(value.(string))
		case "properties":
			properties := Schema{}
			for name, value := range object(value) {
				properties[name] = it.schema(value)
			}
			kept[name] = properties
		case "oneOf", "anyOf", "allOf":
			var all []Schema
			for _, value := range list(value) {
				all = append(all, it.schema(value))
			}
			kept[name] = all
		case "items":
			kept[name] = it.schema(value)
		case "additionalProperties":
			kept[name] = value
			if object(value) != nil {
				kept[name] = it.schema(value)
			}
		default:
			kept[name] = value
		}
	}
	return kept
}

func (it *openAPI) named(reference string) string {
	name := reference[strings.LastIndex(reference, "/")+1:]
	if _, is := it.schemas[name]; !is {
		// Schemas may refer to themselves.
		it.schemas[name] = nil
		it.schemas[name] = it.schema(it.resolve(map[string]any{"$ref": reference}))
	}
	return name
}
