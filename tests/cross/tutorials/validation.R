# Compares the labels of annotation.R with human codes, in a script for localLLM.
library(llamaherd)

found <- readRDS(commandArgs(TRUE)[[1]])
result <- found$result
report <- suppressWarnings(validate(result, gold = found$truth))
stopifnot(
  all(c("confusion", "reliability") %in% names(report)),
  identical(sort(names(report$confusion$vs_gold)), c("brief", "drawn")),
  sum(report$confusion$vs_gold$brief) == 12,
  names(report$confusion$pairwise) == "brief vs drawn",
  is.numeric(report$reliability$krippendorff$alpha)
)
print(report$confusion$pairwise[[1]])
matrices <- compute_confusion_matrices(result$annotations, gold = found$truth)
stopifnot(sum(matrices$vs_gold$drawn) == 12)
agreement <- intercoder_reliability(result$annotations)
stopifnot(nrow(agreement$cohen) == 1)
cat("validation: done\n")
