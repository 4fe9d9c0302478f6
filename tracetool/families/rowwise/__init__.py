"""One reduction per row: norm and softmax."""
