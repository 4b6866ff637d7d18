//go:build !unix

package arena

import "errors"

func mapWalled(int, int) ([]float32, func() error, error) {
	return nil, nil, errors.New("overcommitted memory: this system has no pages that can be protected")
}
