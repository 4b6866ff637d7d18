//go:build !race

package testkit

const detector = false
