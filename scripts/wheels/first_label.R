# Labels one text with the installed R package:
#   Rscript first_label.R MODEL
# Prints the system of R, the label and its probability. Fails if the label is not one of the
# codebook's labels.
library(llamaherd)

labels <- c("positive", "negative")
book <- codebook("Is the review positive or negative?", labels)
context <- context_create(model_load(commandArgs(TRUE)[[1]]))
coded <- annotate_texts(
  data.frame(text = "A wonderful film."),
  text,
  book,
  context
)
cat(sprintf(
  "%s: label %s, probability %.3f\n",
  R.version$platform,
  coded$label,
  coded$prob
))
stopifnot(coded$label %in% labels)
