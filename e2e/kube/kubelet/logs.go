package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pollLog is how soon `logs -f` shows a line after it was appended.
const pollLog = 50 * time.Millisecond

func (k *kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	c, query := containerOf(r), r.URL.Query()
	path := k.logFile(c)
	if query.Get("previous") == "true" {
		path = k.previousLogFile(c)
		if _, err := os.Stat(path); err != nil {
			http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", r.PathValue("container"), r.PathValue("pod")), http.StatusBadRequest)
			return
		}
	} else if _, err := os.Stat(path); err != nil {
		path = filepath.Join(k.dir, "logs", "default.log")
	}
	file, err := os.Open(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()

	options := newLogOptions(query)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	reader := bufio.NewReader(file)
	var lines []string
	partial := ""
	// All of a log is not held at once.
	if options.tail >= 0 {
		lines, partial = options.history(reader)
	}
	if !options.send(w, strings.Join(lines, "")) {
		return
	}
	tick := time.NewTicker(pollLog)
	defer tick.Stop()
	for {
		line, err := reader.ReadString('\n')
		partial += line
		if err == nil {
			if text := options.render(partial); text != "" && !options.send(w, text) {
				return
			}
			partial = ""
			continue
		}
		if query.Get("follow") != "true" {
			return
		}
		// As a log ends with its container, so this one with its file.
		if _, err := os.Stat(path); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

type logOptions struct {
	since  time.Time
	limit  int64 // bytes still to send; negative: no limit
	tail   int   // negative: all lines
	stamps bool
}

func newLogOptions(query url.Values) *logOptions {
	options := &logOptions{limit: -1, tail: -1, stamps: query.Get("timestamps") == "true"}
	if seconds, err := strconv.ParseInt(query.Get("sinceSeconds"), 10, 64); err == nil {
		options.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if t, err := time.Parse(time.RFC3339, query.Get("sinceTime")); err == nil {
		options.since = t
	}
	if n, err := strconv.ParseInt(query.Get("limitBytes"), 10, 64); err == nil {
		options.limit = n
	}
	if n, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		options.tail = n
	}
	return options
}

// history reads the last lines of what is there, and the part of a line that may follow them.
func (o *logOptions) history(reader *bufio.Reader) (lines []string, partial string) {
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			partial = line
			break
		}
		if text := o.render(line); text != "" {
			lines = append(lines, text)
		}
	}
	if o.tail < len(lines) {
		lines = lines[len(lines)-o.tail:]
	}
	return lines, partial
}

// render takes `TIME STREAM FLAG TEXT` apart; an empty answer means that the line is too old.
func (o *logOptions) render(line string) string {
	stamp, rest, _ := strings.Cut(line, " ")
	if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil && t.Before(o.since) {
		return ""
	}
	if part := strings.SplitN(rest, " ", 3); len(part) == 3 {
		rest = part[2]
	}
	if o.stamps {
		return stamp + " " + rest
	}
	return rest
}

// send says whether more may follow.
func (o *logOptions) send(w http.ResponseWriter, text string) bool {
	if o.limit >= 0 && int64(len(text)) > o.limit {
		text = text[:o.limit]
	}
	if o.limit >= 0 {
		o.limit -= int64(len(text))
	}
	_, err := io.WriteString(w, text)
	w.(http.Flusher).Flush()
	return err == nil && o.limit != 0
}
