"""Other people's questions: networks, fault trees and logic programs become circuits, or are counted directly."""
