//go:build unix

package gpipe

import "unsafe"

func addressOf(p *float32) uintptr { return uintptr(unsafe.Pointer(p)) }
