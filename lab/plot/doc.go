// Package plot draws figures from tables.
//
// A plot has a heading, one legend and panels. The heading is a sentence that states the finding, with
// figures computed from the tables (the finding of a spec), and the data it is based on, with the number
// of rounds or seeds. The origin of a series' numbers (the paper, torchgpipe, theory, the model,
// measured) determines its colour in every plot, from the palette of Okabe and Ito. The colours of the
// paper, the model and measurements are reserved for series whose names begin with paper, modelled or
// measured. Lines with few points also have different marks. The paper's value is a line across the bars
// that are compared with it, panels that are compared share one scale, and whiskers are 95% intervals.
// Every text in an SVG states the width that it was laid out with (textLength), so that a reader without
// Liberation Sans sees another font in the same space. Every panel and legend entry is an element of its
// own, which the page arranges by its width.
package plot
