//go:build unix && !linux

package arena

func adviseHuge([]byte) {}
