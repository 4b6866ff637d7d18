//go:build !(linux || darwin)

package experiments

// maxRSS is not known here.
func maxRSS() int64 { return 0 }
