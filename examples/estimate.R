# Estimates the correct shares of labels in a file of texts, in spite of wrong labels.
#   Rscript examples/estimate.R TEXTS.csv MODEL.gguf
# TEXTS.csv has the columns text and label, the human code. For most texts the code is used only to
# show how accurate the estimates are: a real project has human codes only for the gold sample.
files <- commandArgs(trailingOnly = TRUE)

library(llamaherd)
texts <- read.csv(files[1], encoding = "UTF-8")
labels <- sort(unique(texts$label))

set.seed(1) # three texts of each label are the codebook's examples
shown <- sample(unlist(tapply(seq_along(texts$text), texts$label, sample, 3)))
book <- codebook(
  "Label the text.",
  labels,
  examples = texts[shown, c("text", "label")]
)

rest <- texts[-shown, ]
context <- context_create(model_load(files[2]), deterministic = TRUE)
coded <- annotate_texts(rest["text"], text, book, context, calibrate = "batch")

gold <- gold_sample(coded, nrow(rest) %/% 4, seed = 1) # which texts people have to code
gold <- read_gold(
  data.frame(id = gold$ids, person = rest$label[gold$rows]),
  gold
)
validate(coded, gold)

fit <- estimate(coded, gold)
fit
png("estimate.png", width = 1950, height = 1200, res = 300)
plot(fit)
dev.off()
