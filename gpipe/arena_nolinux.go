//go:build unix && !linux

package gpipe

func adviseHuge([]byte) {}
