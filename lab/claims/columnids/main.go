// Command columnids writes the IDs of columns where files of claims and documents have their
// heads: in the calls of their expressions, and in lists of a table's columns.
//
//	go run ./lab/claims/columnids FILE...
package main

import (
	"io"
	"log"
	"os"
	"regexp"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/lab"
)

func main() {
	for _, name := range os.Args[1:] {
		text, err := files.Read(name, files.Kind{What: "claims or a document", Bytes: 16 << 20})
		if err == nil {
			err = files.Write(name, func(w io.Writer) error {
				_, err := io.WriteString(w, renamed(string(text)))
				return err
			})
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

var (
	call    = regexp.MustCompile(`\b(cell|nth|text|low|high|rate|every)\(((?:\s*(?:"[^"]*"|[0-9]+|\{[A-Za-z_]+\})\s*,?)+)\)`)
	quoted  = regexp.MustCompile(`"[^"]*"|[0-9]+|\{[A-Za-z_]+\}`)
	columns = regexp.MustCompile(`<!-- table: ([^|]+) \| (.+) -->`)
	name    = regexp.MustCompile(`\{[A-Za-z_]+\}`)
)

// renamed is a text with IDs of columns.
func renamed(text string) string {
	text = call.ReplaceAllStringFunc(text, func(whole string) string {
		function, n := call.FindStringSubmatch(whole)[1], -1
		if function == "nth" {
			n--
		}
		open := len(function) + 1
		return whole[:open] + quoted.ReplaceAllStringFunc(whole[open:], func(argument string) string {
			// A table, a column, and pairs of a column and its value; or values of the first alone.
			n++
			if argument[0] != '"' || n != 1 && (function == "every" || n <= 0 || n%2 == 1) {
				return argument
			}
			return `"` + id(argument[1:len(argument)-1]) + `"`
		})
	})
	return columns.ReplaceAllStringFunc(text, func(whole string) string {
		m := columns.FindStringSubmatch(whole)
		var ids []string
		for head := range strings.SplitSeq(m[2], "; ") {
			ids = append(ids, lab.Slug(head))
		}
		return "<!-- table: " + m[1] + " | " + strings.Join(ids, "; ") + " -->"
	})
}

// id is that of a head, in which names in braces stand for parts.
func id(head string) string {
	var parts []string
	from := 0
	for _, at := range append(name.FindAllStringIndex(head, -1), []int{len(head), len(head)}) {
		part := head[from:at[0]]
		is := lab.Slug(part)
		if is != "" && from > 0 && !strings.HasPrefix(strings.ToLower(part), is[:1]) {
			is = "-" + is
		}
		if at[0] < len(head) && part != "" && !strings.HasSuffix(strings.ToLower(part), is[max(0, len(is)-1):]) || is == "" && part != "" {
			is += "-"
		}
		parts = append(parts, is, head[at[0]:at[1]])
		from = at[1]
	}
	return strings.Join(parts, "")
}
