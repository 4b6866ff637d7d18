package plot

import (
	"regexp"
)

// figurePiece is one of the pieces that figure.svg makes.
var figurePiece = regexp.MustCompile(`(?s)<svg class="(\w+)" x="[^"]*" y="[^"]*"(.*?</svg>)`)

// svgPiece is a picture by itself.
type svgPiece struct{ Class, Text string }

// FigurePieces takes a figure apart. Another picture has no pieces.
func FigurePieces(text string) (pieces []svgPiece) {
	for _, m := range figurePiece.FindAllStringSubmatch(text, -1) {
		pieces = append(pieces, svgPiece{m[1], "<svg" + m[2]})
	}
	return pieces
}
