//go:build !unix

package arena

func mapFloats(n int) ([]float32, func() error, error) {
	return make([]float32, n), func() error { return nil }, nil
}
