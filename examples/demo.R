# Labels 60 short news texts by a codebook, all at once, with a 135M-parameter model on the CPU,
# compares the labels with the labels of the person who wrote the texts, and plots the comparison.
#   Rscript examples/demo.R MODEL.gguf [PLOT.png]
# The codebook contains eight labelled texts besides its four labels, because a model of this size
# needs examples. docs/labelling.md compares prompts. The beginning that all prompts share is
# computed only once.

library(llamaherd)

arguments <- commandArgs(trailingOnly = TRUE)
model_path <- arguments[1]
plot_path <- if (length(arguments) > 1) arguments[2] else "demo.png"

news <- utils::read.csv("examples/data/headlines.csv", encoding = "UTF-8")
shots <- utils::read.csv("examples/data/shots.csv", encoding = "UTF-8")
topics <- codebook(
  "Label the topic of each news text.",
  labels = c(
    Sports = "Matches, athletes, competitions.",
    Business = "Companies, prices, jobs.",
    Science = "Research and discoveries.",
    Politics = "Governments, parties, laws."
  ),
  examples = data.frame(text = shots$text, label = shots$topic),
  answer_role = "Topic"
)

model <- model_load(model_path)
context <- context_create(model)
cat(sprintf(
  "Labelling %d texts with %s ...\n\n",
  nrow(news),
  basename(model_path)
))
coded <- annotate_texts(news, text, topics, context)

# The labels with their probabilities, and the human codes.
shown <- data.frame(
  text = ifelse(
    nchar(coded$text) > 52,
    paste0(substr(coded$text, 1, 49), "..."),
    coded$text
  ),
  label = coded$label,
  prob = round(coded$prob, 2),
  person = ifelse(coded$label == coded$topic, "", coded$topic)
)
print(shown, right = FALSE, row.names = FALSE, max = 1000)

cat("\n")
checked <- validate(coded, gold = coded$topic)
print(checked)

grDevices::png(plot_path, width = 6.5, height = 4, units = "in", res = 200)
plot(checked, type = "labels")
invisible(grDevices::dev.off())
cat(sprintf("\nThe plot is in %s.\n\n", normalizePath(plot_path)))

print(attr(coded, "llamaherd")$stats)
