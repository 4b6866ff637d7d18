//go:build !playground

package playground

import "io/fs"

// Site has the page's files; nil: the program was built without them.
func Site() fs.FS { return nil }
