//go:build race

package testkit

const detector = true
