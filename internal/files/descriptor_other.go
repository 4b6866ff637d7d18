//go:build !unix

package files

import (
	"errors"
	"os"
)

// Descriptors have no names on systems without /dev.
func descriptor(string) (fd int, ok bool) { return 0, false }

func duplicate(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
