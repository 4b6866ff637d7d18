//go:build playground

package playground

import (
	"embed"
	"io/fs"
)

//go:embed site
var site embed.FS

// Site has the page's files; nil: the program was built without them.
func Site() fs.FS {
	within, err := fs.Sub(site, "site")
	if err != nil {
		panic(err) // the name is valid
	}
	return within
}
