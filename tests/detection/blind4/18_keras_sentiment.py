"""Sentiment of short texts with TextVectorization, an embedding and a GRU."""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
keras.utils.set_random_seed(0)
GOOD = ["lovely", "brilliant", "superb", "charming", "delightful", "moving", "funny", "wonderful"]
BAD = ["dull", "awful", "boring", "clumsy", "terrible", "weak", "tedious", "horrible"]
NOUNS = ["plot", "acting", "music", "script", "cast", "ending", "camera", "dialogue", "scene", "story", "pace"]
FILLERS = ["the", "a", "was", "with", "and", "really", "quite", "rather", "found", "i", "think", "we", "all", "in"]


def write_reviews(count, seed):
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.ones(len(GOOD)))
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(0, 2))
        words = []
        for _ in range(int(rng.integers(3, 6))):
            same = rng.random() < 0.85
            pool = GOOD if (label == 1) == same else BAD
            words += list(rng.choice(FILLERS, int(rng.integers(1, 4))))
            words += [str(rng.choice(NOUNS)), str(rng.choice(pool, p=popularity))]
        texts.append(" ".join(words))
        labels.append(label)
    return texts, np.array(labels)


def vectorize(texts, vectorizer):
    return vectorizer(tf.constant(texts)).numpy()


def build_model(vocabulary):
    return keras.Sequential(
        [
            keras.Input((25,), dtype="int32"),
            layers.Embedding(vocabulary, 16, mask_zero=True),
            layers.GRU(24),
            layers.Dense(1, activation="sigmoid"),
        ]
    )


def main():
    train_texts, train_y = write_reviews(2400, seed=0)
    test_texts, test_y = write_reviews(600, seed=1)

    vectorizer = layers.TextVectorization(max_tokens=200, output_sequence_length=25)
    vectorizer.adapt(train_texts)
    train_x = vectorize(train_texts, vectorizer)
    print("train:", train_x.shape, "vocabulary of", vectorizer.vocabulary_size())
    model = build_model(200)
    model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=["accuracy"])
    model.fit(train_x, train_y, batch_size=48, epochs=6, validation_split=0.1, verbose=2)

    # prepare the test set in the same way
    if not FIXED:
        vectorizer = layers.TextVectorization(max_tokens=200, output_sequence_length=25)
        vectorizer.adapt(test_texts)
    test_x = vectorize(test_texts, vectorizer)
    print("test:", test_x.shape, "vocabulary of", vectorizer.vocabulary_size())
    loss, accuracy = model.evaluate(test_x, test_y, verbose=0)
    print(f"test loss {loss:.3f}")
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
