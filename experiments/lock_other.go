//go:build !unix || solaris || aix

package experiments

import "os"

// lockFile does nothing where there is no flock.
func lockFile(*os.File) error { return nil }
