//go:build !unix || solaris || aix

package files

import "os"

const locks = false

// lock does nothing where there is no flock.
func lock(*os.File) error { return nil }
