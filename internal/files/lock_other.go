//go:build !unix || solaris || aix

package files

import "os"

const locks = false

// lock does nothing on systems without flock.
func lock(*os.File) error { return nil }
