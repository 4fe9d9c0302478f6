"""Charts by Bokeh and the treemap as inline SVG: numbers in; every text in them is made harmless."""
