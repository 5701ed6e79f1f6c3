package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"
)

// fromClient calls methods of the client, and notes their requests. Types of parameters and results are the schemas.
func fromClient() (Description, error) {
	sent := &recorder{}
	client, err := gitlab.NewClient("", gitlab.WithHTTPClient(&http.Client{Transport: sent}), gitlab.WithoutRetries(), gitlab.WithBaseURL("http://gitlab"))
	if err != nil {
		return Description{}, err
	}
	schemas := types{}
	operations := map[string]Operation{}
	for _, call := range []any{
		client.Version.GetVersion,
		client.Namespaces.GetNamespace,
		client.Groups.CreateGroup,
		client.Projects.CreateProject, client.Projects.GetProject, client.Projects.EditProject, client.Projects.DeleteProject,
		client.Projects.ArchiveProject, client.Projects.UnarchiveProject,
		client.DeployKeys.ListProjectDeployKeys, client.DeployKeys.AddDeployKey, client.DeployKeys.DeleteDeployKey,
		client.ProjectAccessTokens.ListProjectAccessTokens, client.ProjectAccessTokens.CreateProjectAccessToken,
		client.ProjectAccessTokens.RevokeProjectAccessToken,
		client.ProjectVariables.ListVariables, client.ProjectVariables.CreateVariable,
		client.ProjectVariables.UpdateVariable, client.ProjectVariables.RemoveVariable,
		client.Repositories.ListTree, client.Commits.CreateCommit,
		client.MergeRequests.ListProjectMergeRequests, client.MergeRequests.GetMergeRequest, client.MergeRequests.AcceptMergeRequest,
	} {
		method := reflect.ValueOf(call)
		var (
			query     []string
			request   Schema
			arguments []reflect.Value
		)
		for at := range method.Type().NumIn() - 1 {
			kind := method.Type().In(at)
			switch {
			case kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Struct:
				query, request = queryOf(kind.Elem(), ""), schemas.of(kind.Elem())
				arguments = append(arguments, reflect.New(kind.Elem()))
			case kind.Kind() == reflect.Interface || kind.Kind() == reflect.String:
				arguments = append(arguments, reflect.ValueOf("{name}").Convert(kind))
			case kind.Kind() == reflect.Int64 || kind.Kind() == reflect.Int:
				arguments = append(arguments, reflect.ValueOf(number).Convert(kind))
			default:
				return Description{}, fmt.Errorf("unknown type of an argument: %s", kind)
			}
		}
		method.Call(arguments)
		operation := Operation{Answers: map[string]Schema{"*": nil}}
		switch sent.method {
		case http.MethodPost:
			operation.Request = request
		case http.MethodPut:
			// GitLab reads a filter from the query, too.
			operation.Request, operation.Query = request, query
		default:
			operation.Query = query
		}
		if method.Type().NumOut() == 3 {
			operation.Answers["*"] = schemas.of(method.Type().Out(0))
		}
		operations[sent.method+" "+sent.path] = operation
	}
	for name, fields := range required {
		schema, is := schemas[name]
		if !is {
			return Description{}, fmt.Errorf("no type %s", name)
		}
		schema["required"] = fields
	}
	return Description{"GitLab, Go module gitlab.com/gitlab-org/api/client-go v1.46.0 (Apache-2.0)", operations, schemas}, nil
}

// required has the required parameters by docs.gitlab.com/api; all fields of the client's options are optional.
var required = map[string][]string{
	"CreateGroupOptions":              {"name", "path"},
	"CreateProjectOptions":            {"name", "path"},
	"AddDeployKeyOptions":             {"key", "title"},
	"CreateProjectAccessTokenOptions": {"expires_at", "name", "scopes"},
	"CreateProjectVariableOptions":    {"key", "value"},
	"UpdateProjectVariableOptions":    {"value"},
	"CreateCommitOptions":             {"actions", "branch", "commit_message"},
	"CommitActionOptions":             {"action", "file_path"},
}

// number stands for each number in a path.
const number = 4242

type recorder struct{ method, path string }

func (it *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	it.method = request.Method
	path, err := url.PathUnescape(request.URL.Path)
	if err != nil {
		return nil, err
	}
	it.path = strings.TrimPrefix(path, "/api/v4")
	it.path = strings.ReplaceAll(it.path, fmt.Sprint(number), "{number}")
	if request.Body != nil {
		_, _ = io.Copy(io.Discard, request.Body)
	}
	return nil, errors.New("noted")
}

// queryOf returns the names of query parameters of a struct of options.
func queryOf(kind reflect.Type, prefix string) []string {
	var names []string
	for at := range kind.NumField() {
		field := kind.Field(at)
		name, _, _ := strings.Cut(field.Tag.Get("url"), ",")
		inner := field.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		isStruct := inner.Kind() == reflect.Struct && inner.PkgPath() != "time" && inner != reflect.TypeFor[gitlab.ISOTime]()
		switch {
		case field.Anonymous && isStruct:
			names = append(names, queryOf(inner, prefix)...)
		case name == "" || name == "-":
		case isStruct:
			names = append(names, queryOf(inner, name)...)
		case prefix != "":
			names = append(names, prefix+"["+name+"]")
		default:
			names = append(names, name)
		}
	}
	return names
}

type types map[string]Schema

func (it types) of(kind reflect.Type) Schema {
	switch kind {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[gitlab.ISOTime]():
		return Schema{"type": "string"}
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return it.of(kind.Elem())
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64:
		return Schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice:
		return Schema{"type": "array", "items": it.of(kind.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": it.of(kind.Elem())}
	case reflect.Struct:
		it.add(kind)
		return Schema{"$ref": kind.Name()}
	default:
		return Schema{}
	}
}

func (it types) add(kind reflect.Type) {
	if _, is := it[kind.Name()]; is {
		return
	}
	properties := Schema{}
	it[kind.Name()] = Schema{"type": "object", "properties": properties}
	it.fields(kind, properties)
}

func (it types) fields(kind reflect.Type, properties Schema) {
	for at := range kind.NumField() {
		field := kind.Field(at)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			it.fields(inner, properties)
		case name == "" || name == "-":
		default:
			properties[name] = it.of(field.Type)
		}
	}
}
